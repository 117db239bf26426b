/**
 * A PostgreSQL for the start without settings: brings the server's binaries, keeps its data in one
 * directory, and ends with the service. Promises that what was committed survives every way in
 * which service, database or machine may end; that one process at most serves a directory; that
 * nothing in a directory of somebody else is touched; and that every refusal is one line that says
 * what to do. Enters no other room.
 */
@NullMarked
package dev.waybill.embedded;

import org.jspecify.annotations.NullMarked;
