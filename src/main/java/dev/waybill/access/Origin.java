package dev.waybill.access;

import java.util.Locale;
import org.jspecify.annotations.Nullable;

/**
 * What a browser says of the page that asks. Where nobody shows a credential, any page that the
 * same person has open could post here.
 *
 * @param changes the request is no GET or HEAD
 * @param header the header Origin, or null
 * @param site the header Sec-Fetch-Site, or null
 */
record Origin(boolean changes, @Nullable String header, @Nullable String site) {

  void refuseForeignPages(@Nullable String host) {
    if (!changes) {
      return;
    }
    boolean foreignSite = site != null && !site.equals("same-origin") && !site.equals("none");
    boolean foreignOrigin =
        header != null
            && !header.toLowerCase(Locale.ROOT).replaceFirst("^https?://", "").equals(host);
    if (foreignSite || foreignOrigin) {
      throw Denied.forbidden("Without credentials no page of another origin may change anything.");
    }
  }
}
