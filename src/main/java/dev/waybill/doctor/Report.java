package dev.waybill.doctor;

import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.List;

/** Everything that was found, in the order in which it was looked at. */
public record Report(List<Finding> findings) {

  private static final int ABOUT_WIDTH = 12;

  public Report {
    findings = List.copyOf(findings);
  }

  public long count(Verdict verdict) {
    return findings.stream().filter(finding -> finding.verdict() == verdict).count();
  }

  /** A line each, then what mends it, then a sum. */
  public String text() {
    var text = new StringBuilder();
    for (Finding finding : findings) {
      text.append(pad(finding.verdict().word(), 6)).append(pad(finding.about(), ABOUT_WIDTH));
      text.append(finding.says()).append('\n');
      if (finding.mend() != null) {
        text.append(" ".repeat(6 + ABOUT_WIDTH)).append("mend: ").append(finding.mend());
        text.append('\n');
      }
    }
    text.append(count(Verdict.OK)).append(" ok, ").append(count(Verdict.WARN)).append(" warn, ");
    return text.append(count(Verdict.WRONG)).append(" wrong\n").toString();
  }

  private static String pad(String word, int width) {
    return word + " ".repeat(Math.max(1, width - word.length()));
  }

  /** One object in one line. */
  public String json() {
    ObjectNode all = JsonNodeFactory.instance.objectNode();
    for (Verdict verdict : Verdict.values()) {
      all.put(verdict.word(), count(verdict));
    }
    var list = all.putArray("findings");
    for (Finding finding : findings) {
      ObjectNode one = list.addObject();
      one.put("verdict", finding.verdict().word());
      one.put("about", finding.about());
      one.put("says", finding.says());
      if (finding.mend() != null) {
        one.put("mend", finding.mend());
      }
    }
    return all + "\n";
  }
}
