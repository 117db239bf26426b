"""A very small PostgreSQL client (stdlib only): named prepared statements, text format, one Sync per call.
Connects from PGHOST (host or socket directory), PGPORT, PGUSER, PGPASSWORD, PGDATABASE. No TLS."""
import base64, hashlib, hmac, os, socket, struct


class PgError(Exception):
    pass


class Pg:
    def __init__(self):
        host = os.environ.get("PGHOST", "localhost")
        port = int(os.environ.get("PGPORT", "5432"))
        user = os.environ.get("PGUSER", "postgres")
        if host.startswith("/"):
            self.s = socket.socket(socket.AF_UNIX)
            self.s.connect(f"{host}/.s.PGSQL.{port}")
        else:
            self.s = socket.create_connection((host, port))
            self.s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.f = self.s.makefile("rb", 1 << 16)
        p = {"user": user, "database": os.environ.get("PGDATABASE", user), "application_name": "waybill-shape"}
        body = struct.pack("!i", 196608) + b"".join(k.encode() + b"\0" + v.encode() + b"\0" for k, v in p.items()) + b"\0"
        self.s.sendall(struct.pack("!i", len(body) + 4) + body)
        self._auth(user, os.environ.get("PGPASSWORD", ""))
        self._drain()
        # when no sched statistics can be read, CPU figures are None
        self.cpu_src = None
        for src in ("/proc/self/schedstat", "/proc/self/stat"):
            try:
                self.q(f"SELECT pg_read_file('{src}')")
                self.cpu_src = src
                break
            except PgError:
                pass

    def _msg(self):
        h = self.f.read(5)
        if len(h) < 5:
            raise PgError("connection closed")
        return h[:1], self.f.read(struct.unpack("!i", h[1:])[0] - 4)

    def _send(self, t, b):
        self.s.sendall(t + struct.pack("!i", len(b) + 4) + b)

    def _auth(self, user, pw):
        while True:
            t, b = self._msg()
            if t == b"E":
                raise PgError(b.replace(b"\0", b" ").decode())
            code = struct.unpack("!i", b[:4])[0]
            if code == 0:
                return
            if code == 3:
                self._send(b"p", pw.encode() + b"\0")
            elif code == 5:
                inner = hashlib.md5((pw + user).encode()).hexdigest().encode()
                self._send(b"p", b"md5" + hashlib.md5(inner + b[4:8]).hexdigest().encode() + b"\0")
            elif code == 10:
                nonce = base64.b64encode(os.urandom(18)).decode()
                bare = f"n=,r={nonce}"
                first = ("n,," + bare).encode()
                self._send(b"p", b"SCRAM-SHA-256\0" + struct.pack("!i", len(first)) + first)
                srv = self._msg()[1][4:].decode()
                a = dict(x.split("=", 1) for x in srv.split(","))
                salted = hashlib.pbkdf2_hmac("sha256", pw.encode(), base64.b64decode(a["s"]), int(a["i"]))
                ck = hmac.digest(salted, b"Client Key", "sha256")
                noproof = f"c=biws,r={a['r']}"
                am = f"{bare},{srv},{noproof}".encode()
                sig = hmac.digest(hashlib.sha256(ck).digest(), am, "sha256")
                proof = base64.b64encode(bytes(x ^ y for x, y in zip(ck, sig))).decode()
                self._send(b"p", f"{noproof},p={proof}".encode())
            elif code != 12 and code != 11:
                raise PgError(f"authentication method {code} not supported")

    def _drain(self):
        rows, err, tag = [], None, ""
        while True:
            t, b = self._msg()
            if t == b"D":
                n, o, r = struct.unpack("!h", b[:2])[0], 2, []
                for _ in range(n):
                    l = struct.unpack_from("!i", b, o)[0]
                    o += 4
                    if l < 0:
                        r.append(None)
                    else:
                        r.append(b[o:o + l].decode())
                        o += l
                rows.append(r)
            elif t == b"T":
                rows = []
            elif t == b"C":
                tag = b[:-1].decode()
            elif t == b"E":
                err = b.replace(b"\0", b" ").decode()
            elif t == b"Z":
                self.tag = tag
                if err:
                    raise PgError(err)
                return rows

    def q(self, sql):
        self._send(b"Q", sql.encode() + b"\0")
        return self._drain()

    def prepare(self, name, sql):
        m = name.encode() + b"\0" + sql.encode() + b"\0" + struct.pack("!h", 0)
        self.s.sendall(b"P" + struct.pack("!i", len(m) + 4) + m + b"S" + struct.pack("!i", 4))
        self._drain()

    def x(self, name, *params):
        m = [b"\0", name.encode(), b"\0", struct.pack("!hh", 0, len(params))]
        for p in params:
            if p is None:
                m.append(struct.pack("!i", -1))
            else:
                v = str(p).encode()
                m.append(struct.pack("!i", len(v)) + v)
        m = b"".join(m) + struct.pack("!h", 0)
        self.s.sendall(b"B" + struct.pack("!i", len(m) + 4) + m + b"E" + struct.pack("!i", 9) + b"\0" + struct.pack("!i", 0)
                       + b"S" + struct.pack("!i", 4))
        return self._drain()

    def cpu(self):
        """CPU seconds of this backend so far (None when the server does not let us see it)."""
        if not self.cpu_src:
            return None
        v = self.q(f"SELECT pg_read_file('{self.cpu_src}')")[0][0]
        if self.cpu_src.endswith("schedstat"):
            return int(v.split()[0]) / 1e9
        p = v.rsplit(")", 1)[1].split()
        return (int(p[11]) + int(p[12])) / 100.0

    def lsn(self):
        return int(self.q("SELECT pg_current_wal_insert_lsn() - '0/0'")[0][0])

    def close(self):
        self._send(b"X", b"")
        self.s.close()
