/**
 * Connections, transactions, error codes, the schema's version. Knows nothing of jobs. Enters no
 * other room.
 */
@NullMarked
package dev.waybill.db;

import org.jspecify.annotations.NullMarked;
