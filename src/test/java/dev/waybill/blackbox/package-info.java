/**
 * The black box: processes of the artifact that ships (the jar, or the native binary), a real
 * PostgreSQL, and nothing of the source. Whatever is checked here is seen from outside: HTTP, SQL,
 * signals, exit codes, log.
 */
@NullMarked
package dev.waybill.blackbox;

import org.jspecify.annotations.NullMarked;
