package dev.waybill.alert;

/** What became of alerts, for whoever counts them. */
public interface AlertEvents {

  /**
   * It ended.
   *
   * @param outcome sent, failed or unknown
   */
  void alerted(String outcome);
}
