package dev.waybill.access;

import jakarta.enterprise.context.RequestScoped;
import org.jspecify.annotations.Nullable;

/** The caller of the request under way, for resources: injected, asked in the method. */
@RequestScoped
public class CurrentCaller {

  private @Nullable Caller caller;

  void is(Caller known) {
    caller = known;
  }

  public Caller get() {
    if (caller == null) {
      throw new IllegalStateException("asked outside of a guarded request");
    }
    return caller;
  }
}
