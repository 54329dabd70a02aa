#!/bin/sh
# After the package went: nothing of it is left but what people made, the data
# and changed settings. Purging it (dpkg) removes these and the user, too.
set -e

[ ! -d /run/systemd/system ] || systemctl daemon-reload
if [ "${1:-}" = purge ]; then
	rm -rf /var/lib/aibridge /etc/aibridge
	if getent passwd aibridge >/dev/null 2>&1; then userdel aibridge; fi
	if getent group aibridge >/dev/null 2>&1; then groupdel aibridge; fi
fi
