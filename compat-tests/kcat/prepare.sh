#!/usr/bin/env bash
# Nothing but the Debian package is needed.
