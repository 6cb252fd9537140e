#!/usr/bin/env bash
# Makes the client's virtual environment, when it is missing.
exec "$(dirname "$0")/venv.sh" "$CLIENT"
