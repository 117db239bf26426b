/**
 * What is shipped beside the service: manifests, images, SQL for roles. Tests read them as the
 * cluster would, and hold them against the service.
 */
@NullMarked
package dev.waybill.deploy;

import org.jspecify.annotations.NullMarked;
