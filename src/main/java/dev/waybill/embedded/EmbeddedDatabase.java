package dev.waybill.embedded;

import java.nio.file.Path;

/** Placeholder while it is being written. */
public final class EmbeddedDatabase implements AutoCloseable {
  public static final class Refused extends Exception {
    private static final long serialVersionUID = 1L;

    Refused(String m) {
      super(m);
    }
  }

  public static EmbeddedDatabase start(Path d) throws Refused {
    if (d.toString().length() > 0) throw new Refused("not here yet");
    return new EmbeddedDatabase();
  }

  public String jdbcUrl() {
    return "";
  }

  public String user() {
    return "";
  }

  public String password() {
    return "";
  }

  public String psqlCommand() {
    return "";
  }

  @Override
  public void close() {}
}
