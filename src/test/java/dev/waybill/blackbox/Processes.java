package dev.waybill.blackbox;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.awaitility.Awaitility;
import org.junit.jupiter.api.extension.AfterAllCallback;
import org.junit.jupiter.api.extension.AfterEachCallback;
import org.junit.jupiter.api.extension.BeforeAllCallback;
import org.junit.jupiter.api.extension.BeforeEachCallback;
import org.junit.jupiter.api.extension.ExtensionContext;

/**
 * Ends the processes that a test or a class started, and shows what they said when the test failed.
 */
final class Processes
    implements BeforeAllCallback, AfterAllCallback, BeforeEachCallback, AfterEachCallback {

  private static final int LINES_MAX = 200;

  private final Set<ServiceProcess> beforeClass = new HashSet<>();
  private final Set<ServiceProcess> beforeTest = new HashSet<>();

  @Override
  public void beforeAll(ExtensionContext context) {
    // Ten seconds would be the default: generous, for machines that others use as well.
    Awaitility.setDefaultTimeout(ServiceProcess.PATIENCE);
    beforeClass.addAll(ServiceProcess.started());
  }

  @Override
  public void beforeEach(ExtensionContext context) {
    beforeTest.clear();
    beforeTest.addAll(ServiceProcess.started());
  }

  @Override
  public void afterEach(ExtensionContext context) {
    if (context.getExecutionException().isPresent()) {
      System.err.println("=== " + context.getDisplayName() + " failed; its processes said:");
      since(beforeClass).forEach(Processes::show);
    }
    since(beforeTest).forEach(ServiceProcess::close);
  }

  @Override
  public void afterAll(ExtensionContext context) {
    since(beforeClass).forEach(ServiceProcess::close);
  }

  private static List<ServiceProcess> since(Set<ServiceProcess> before) {
    var since = new ArrayList<>(ServiceProcess.started());
    since.removeAll(before);
    return since;
  }

  private static void show(ServiceProcess process) {
    List<String> lines = process.output().lines().toList();
    lines.stream().skip(Math.max(0, lines.size() - LINES_MAX)).forEach(System.err::println);
  }
}
