package dev.waybill.embedded;

import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/**
 * The account that runs the server, and the command that leads there. PostgreSQL refuses to run as
 * root, and containers often have nothing else.
 *
 * @param user the owner that its files need
 * @param prefix comes before the server's own command, and becomes it (no fork), so that the
 *     process id stays
 */
record Account(int user, List<String> prefix) {
  private static final int ROOT = 0;
  private static final int NOBODY = 65534;

  /**
   * In a user namespace of its own, the process is still the same user to the kernel, but without
   * capabilities, and PostgreSQL sees "nobody", as owner of the files, too. Nothing changes hands.
   * It also gives a name to a user who has none (OpenShift), which initdb asks for.
   */
  private static final List<String> NAMESPACE = List.of("unshare", "--user", "--");

  /**
   * A dry run of initdb: it asks for a user who is not root and has a name, and for programs that
   * it may read (by access(2), which ignores capabilities). The data directory has to be within
   * reach, too.
   */
  private static final String PROBE =
      "cd -- \"$1\" && exec \"$2\" --show --username=waybill --pgdata=\"$1\"";

  List<String> command(String... words) {
    var all = new ArrayList<>(prefix);
    all.addAll(List.of(words));
    return List.copyOf(all);
  }

  /**
   * Finds one that works for the binaries and the data directory. The present owner comes first.
   */
  static Account find(Binaries binaries, DataDirectory data) throws IOException, Refused {
    Path directory = data.path();
    int me = me();
    String printed = "";
    for (Account account : me == ROOT ? ofRoot(owner(data)) : ofUser(me)) {
      var words =
          account.command(
              "sh", "-c", PROBE, "sh", directory.toString(), binaries.program("initdb"));
      var probe = tryRun(words);
      if (probe.well()) {
        return account;
      }
      printed = probe.printed();
    }
    throw new Refused(refusal(me, printed));
  }

  /** PostgreSQL serves only what its own user owns, and only root can be that user, too. */
  static void checkOwner(DataDirectory data) throws IOException, Refused {
    int owner = owner(data);
    if (me() != ROOT && me() != owner) {
      throw new Refused(
          "the data directory "
              + data.path()
              + " belongs to user "
              + owner
              + ": start as that user, or give it to user "
              + me()
              + " (chown -R)");
    }
  }

  private static int owner(DataDirectory data) throws IOException {
    return Trees.owner(data.hasCluster() ? data.cluster() : data.path());
  }

  static boolean isRoot() throws IOException {
    return me() == ROOT;
  }

  private static int me() throws IOException {
    return Trees.owner(Path.of("/proc/self"));
  }

  private static List<Account> ofUser(int me) {
    return List.of(new Account(me, List.of()), new Account(me, NAMESPACE));
  }

  private static List<Account> ofRoot(int owner) {
    if (owner != ROOT) {
      return switched(owner);
    }
    var all = new ArrayList<Account>();
    all.add(new Account(ROOT, NAMESPACE));
    all.addAll(switched(NOBODY));
    return all;
  }

  /**
   * Where containers may not make a namespace. The last is for a clone below /root: without that
   * capability nobody else could reach it.
   */
  private static List<Account> switched(int user) {
    String ids = "--reuid=" + user;
    String gids = "--regid=" + user;
    String ambient = "--ambient-caps=+dac_override";
    return List.of(
        new Account(user, List.of("setpriv", ids, gids, "--clear-groups", "--")),
        new Account(user, List.of("chroot", "--userspec=+" + user + ":+" + user, "--groups=", "/")),
        new Account(
            user,
            List.of(
                "setpriv",
                ids,
                gids,
                "--clear-groups",
                "--inh-caps=+dac_override",
                ambient,
                "--")));
  }

  private static Command.Ended tryRun(List<String> words) {
    try {
      return Command.run(words);
    } catch (IOException e) {
      return new Command.Ended(127, String.valueOf(e.getMessage()));
    }
  }

  private static String refusal(int me, String printed) {
    return me == ROOT
        ? "PostgreSQL refuses to run as root, and neither unshare nor setpriv leads to another"
            + " account here: start as a normal user, or set WAYBILL_DB_URL ("
            + Refused.gist(printed)
            + ")"
        : "the embedded PostgreSQL does not run on this machine: set WAYBILL_DB_URL ("
            + Refused.gist(printed)
            + ")";
  }
}
