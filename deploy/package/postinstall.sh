#!/bin/sh
# After an installation or an upgrade, on Debian, Fedora and Alpine: the user,
# its folder, and the service. The bridge is not started before somebody has
# read its settings; an upgrade restarts the one that runs.
set -e

if ! getent group aibridge >/dev/null 2>&1; then
	if command -v groupadd >/dev/null 2>&1; then groupadd --system aibridge; else addgroup -S aibridge; fi
fi
if ! getent passwd aibridge >/dev/null 2>&1; then
	if command -v useradd >/dev/null 2>&1; then
		useradd --system --gid aibridge --home-dir /var/lib/aibridge --no-create-home --shell /usr/sbin/nologin --comment "AI Bridge" aibridge
	else
		adduser -S -D -H -G aibridge -h /var/lib/aibridge -s /sbin/nologin -g "AI Bridge" aibridge
	fi
fi
mkdir -p /var/lib/aibridge
chown aibridge:aibridge /var/lib/aibridge
chmod 0700 /var/lib/aibridge
chown root:aibridge /etc/aibridge /etc/aibridge/aibridge.yaml
chmod 0750 /etc/aibridge
chmod 0640 /etc/aibridge/aibridge.yaml

if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
	systemctl try-restart aibridge.service
fi
