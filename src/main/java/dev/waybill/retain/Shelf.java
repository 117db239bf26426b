package dev.waybill.retain;

import java.io.IOException;
import java.io.OutputStream;

/** Cold storage: objects that are put there whole, or not at all. */
interface Shelf {

  /** Begins an object. Nobody sees it under its name before it is complete. */
  Parcel begin(String name) throws IOException;

  /** Where that object is, for people. */
  String locationOf(String name);

  /** An object that is being written. Closing it without completing it takes it back. */
  abstract class Parcel extends OutputStream {

    /** When this answers, the object is there and stays there. */
    abstract void complete() throws IOException;

    @Override
    public abstract void close() throws IOException;
  }
}
