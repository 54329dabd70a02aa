#!/bin/sh
# Before the package goes: the service ends. An upgrade lets it run, and restarts
# it afterwards.
set -e

case "${1:-}" in
upgrade | 1) exit 0 ;; # dpkg and rpm; apk runs no such script at an upgrade
esac
if [ -d /run/systemd/system ]; then
	systemctl disable --now aibridge.service
elif command -v rc-service >/dev/null 2>&1; then
	rc-service --ifstarted aibridge stop
	rc-update --quiet del aibridge || true # it need not be in a runlevel
fi
