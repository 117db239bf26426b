package dev.waybill.doctor;

/** Durations and sizes as an operator reads them. */
final class Spans {

  private Spans() {}

  static String of(double seconds) {
    if (seconds < 0.01) {
      long micros = Math.round(seconds * 1e6);
      return micros % 1000 == 0 ? micros / 1000 + " ms" : micros / 1000.0 + " ms";
    }
    if (seconds < 1) {
      return Math.round(seconds * 1000) + " ms";
    }
    long whole = Math.round(seconds);
    if (whole < 120) {
      return whole + " s";
    }
    if (whole < 7200) {
      return whole / 60 + " min";
    }
    return whole < 172_800 ? whole / 3600 + " h" : whole / 86_400 + " days";
  }

  static String bytes(long bytes) {
    return bytes < 10_000_000_000L ? bytes / 1_000_000 + " MB" : bytes / 1_000_000_000 + " GB";
  }
}
