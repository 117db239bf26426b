#!/bin/sh
# Reproduces results.json with one command. Connection: PGHOST, PGPORT, PGUSER, PGPASSWORD, PGDATABASE.
# A superuser (or a member of pg_read_server_files) sees server CPU; anyone else gets WAL and times only.
cd "$(dirname "$0")" && exec python3 run.py "$@"
