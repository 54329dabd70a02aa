// Package mosquitto reads the configuration of a mosquitto broker as one of a
// bridge. Settings without a counterpart are reported, by file and line: nothing is
// dropped in silence, and no right becomes wider than it was.
package mosquitto

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/aibridge/aibridge/internal/migrate"
)

// A Bridge is the configuration of a bridge that serves the same clients.
type Bridge struct {
	Settings     map[string]any // for the YAML file, nested
	PasswordFile string         // of mosquitto, "" for none
	ACLFile      string         // of mosquitto, "" for none
	Notes        []migrate.Note
}

// A line is a directive with its arguments.
type line struct {
	number     int
	name, rest string
}

// Read reads mosquitto.conf. file is its name in notes.
func Read(r io.Reader, file string) (*Bridge, error) {
	lines, err := directives(r)
	if err != nil {
		return nil, err
	}
	b := &reader{Bridge: Bridge{Settings: make(map[string]any)}, file: file, used: make(map[string]bool)}
	b.current = &listener{address: "127.0.0.1:1883"}
	for _, l := range lines {
		b.take(l)
	}
	b.endListener()
	if len(b.used) == 0 { // as mosquitto 2 without a listener
		b.used["mqtt"] = true
		b.set("127.0.0.1:1883", "mqtt", "address")
	}
	if !b.used["mqtt"] {
		b.set("off", "mqtt", "address")
	}
	if !b.used["mqtts"] {
		b.set("off", "mqtts")
	}
	return &b.Bridge, nil
}

// directives are the lines of a configuration that are neither empty nor comments.
func directives(r io.Reader) (all []line, err error) {
	scanner := bufio.NewScanner(r)
	for n := 1; scanner.Scan(); n++ {
		text := strings.TrimSpace(scanner.Text())
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		name, rest, _ := strings.Cut(text, " ")
		all = append(all, line{n, name, strings.TrimSpace(rest)})
	}
	return all, scanner.Err()
}

// A listener of mosquitto, as far as it was read.
type listener struct {
	line          int
	address, unix string
	websockets    bool
	certFile, key string
	named         bool // by a line of the file
}

type reader struct {
	Bridge
	file     string
	current  *listener
	used     map[string]bool // settings of listeners
	bound    string          // host of the listener without a line of its own, "" for all
	inBridge bool
}

func (b *reader) note(l line, format string, args ...any) {
	b.Notes = append(b.Notes, migrate.Note{File: b.file, Line: l.number, Text: fmt.Sprintf(format, args...)})
}

// set sets a setting by its path.
func (b *reader) set(value any, path ...string) {
	at := b.Settings
	for _, name := range path[:len(path)-1] {
		next, ok := at[name].(map[string]any)
		if !ok {
			next = make(map[string]any)
			at[name] = next
		}
		at = next
	}
	at[path[len(path)-1]] = value
}

func (b *reader) take(l line) {
	if l.name == "connection" {
		b.inBridge = true
		b.note(l, "the bridge %q to another broker has no counterpart: connect that broker's clients here, or run mosquitto beside as the bridge between both", l.rest)
		return
	}
	if b.inBridge && ofBridges[l.name] {
		return // said once
	}
	switch l.name {
	case "listener", "port":
		b.listen(l)
	case "bind_address":
		_, port, _ := net.SplitHostPort(b.current.address)
		b.bound = l.rest
		b.current.address, b.current.named = net.JoinHostPort(l.rest, port), true
	case "socket_domain", "http_dir", "bind_interface":
		b.note(l, "%s has no counterpart", l.name)
	case "protocol":
		b.current.websockets = l.rest == "websockets"
	case "certfile":
		b.current.certFile = l.rest
	case "keyfile":
		b.current.key = l.rest
	case "cafile", "capath", "crlfile", "require_certificate", "use_identity_as_username", "use_subject_as_username":
		b.note(l, "client certificates are those of the bridge's own authority: enrol devices by aibridge cert (docs/certificates.md); %s is not taken over", l.name)
	case "per_listener_settings":
		if l.rest == "true" {
			b.note(l, "users and their topics are the same at all listeners: a password_file or acl_file of one listener counts for all")
		}
	case "password_file":
		b.only(&b.PasswordFile, l)
	case "acl_file":
		b.only(&b.ACLFile, l)
	case "allow_anonymous":
		if l.rest == "true" {
			b.note(l, "nobody gets in without a credential: give clients that have none a line in the password file, or an API key (aibridge key create)")
		}
	case "log_type":
		if l.rest == "debug" || l.rest == "all" {
			b.set("debug", "log", "level")
		}
	case "persistence":
		if l.rest != "true" {
			b.note(l, "sessions and retained messages always outlive a restart")
		}
	default:
		b.takeLimit(l)
	}
}

// only takes over a file of which there is one for all listeners.
func (b *reader) only(file *string, l line) {
	if *file != "" && *file != l.rest {
		b.note(l, "there is one %s for all listeners, %s: %s is not taken over; join both files", l.name, *file, l.rest)
		return
	}
	*file = l.rest
}

// ofBridges are the directives that may follow a connection.
var ofBridges = func() map[string]bool {
	all := make(map[string]bool)
	for _, name := range strings.Fields(`address addresses topic bridge_attempt_unsubscribe bridge_bind_address bridge_cafile bridge_capath bridge_certfile bridge_keyfile
		bridge_identity bridge_insecure bridge_max_packet_size bridge_outgoing_retain bridge_protocol_version bridge_psk bridge_reload_type bridge_require_ocsp
		bridge_tcp_keepalive bridge_tls_version bridge_alpn clientid local_clientid local_password local_username remote_clientid remote_password remote_username
		password username cleansession local_cleansession idle_timeout keepalive_interval notifications notifications_local_only notification_topic restart_timeout
		round_robin start_type threshold try_private bridge_max_topic_alias bridge_receive_maximum bridge_session_expiry_interval`) {
		all[name] = true
	}
	return all
}()

// limits are directives with a number, and the settings that they are here.
var limits = map[string][]string{
	"max_queued_messages":   {"mqtt", "queue_messages"},
	"max_queued_bytes":      {"mqtt", "queue_bytes"},
	"max_inflight_messages": {"mqtt", "inflight"},
	"max_keepalive":         {"mqtt", "keep_alive_seconds"},
	"max_topic_alias":       {"mqtt", "topic_aliases"},
	"message_size_limit":    {"limits", "payload"},
	"max_packet_size":       {"limits", "payload"},
	"max_connections":       {"limits", "connections"},
}

// needless are directives of which a bridge has no need.
var needless = map[string]string{
	"persistence_location": "state is in the data folder (data)",
	"persistence_file":     "state is in the data folder (data)",
	"autosave_interval":    "what is acknowledged is written at once", "autosave_on_changes": "what is acknowledged is written at once",
	"user": "run the bridge as the user that it shall have", "pid_file": "the service manager knows the process",
	"log_dest": "the log goes to standard error; see log.format", "log_timestamp": "the log has times", "log_timestamp_format": "the log has times",
	"connection_messages": "the log has them at log.level debug", "sys_interval": "$SYS is published every 10 seconds, for administrators",
	"set_tcp_nodelay": "it is set always", "retain_available": "messages are retained always", "queue_qos0_messages": "QoS 0 waits for nobody who is away",
}

func (b *reader) takeLimit(l line) {
	if path, ok := limits[l.name]; ok {
		switch n, err := strconv.Atoi(l.rest); {
		case err != nil:
			b.note(l, "%s: %q is not a number", l.name, l.rest)
		case n > 0: // 0 and -1 mean no limit, which the bridge's own is close to
			if path[0] == "limits" && path[1] == "payload" {
				n = max(n, 1<<10)
			}
			b.set(n, path...)
		}
		return
	}
	if l.name == "persistent_client_expiration" {
		if seconds, ok := expiration(l.rest); ok {
			b.set(seconds, "mqtt", "session_expiry_seconds")
		} else {
			b.note(l, "%q is not a time such as 14d", l.rest)
		}
		return
	}
	if why, ok := needless[l.name]; ok {
		b.note(l, "%s is not needed: %s", l.name, why)
		return
	}
	b.note(l, "%s has no counterpart", l.name)
}

// expiration reads a time such as 14d or 2m, which are months.
func expiration(text string) (seconds int, ok bool) {
	if text == "" {
		return 0, false
	}
	const day = 24 * time.Hour
	unit, known := map[byte]time.Duration{'h': time.Hour, 'd': day, 'w': 7 * day, 'm': 30 * day, 'y': 365 * day}[text[len(text)-1]]
	n, err := strconv.Atoi(text[:len(text)-1])
	if !known || err != nil || n < 1 || n > 24*365*10 {
		return 0, false
	}
	return min(n*int(unit/time.Second), 1<<31-1), true
}

// listen begins a listener: listener PORT [ADDRESS], or listener 0 PATH.
func (b *reader) listen(l line) {
	port, host, _ := strings.Cut(l.rest, " ")
	host = strings.TrimSpace(host)
	if l.name == "listener" {
		b.endListener()
		b.current = &listener{}
	} else {
		host = b.bound
	}
	b.current.line, b.current.named = l.number, true
	if port == "0" && l.name == "listener" {
		b.current.unix = host
		return
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		b.note(l, "%q is not a port", port)
		b.current.named = false
		return
	}
	b.current.address = net.JoinHostPort(host, port)
}

// endListener takes over the listener that was read.
func (b *reader) endListener() {
	c := b.current
	if !c.named {
		return
	}
	at := line{number: c.line}
	setting := []string{"mqtt", "address"}
	name := "mqtt"
	switch {
	case c.unix != "":
		name, setting = "unix", []string{"mqtt", "unix"}
		b.note(at, "the unix socket is the bridge's user's alone; mqtt.unix_mode opens it to others")
	case c.websockets:
		name, setting = "ws", []string{"ws"}
		b.note(at, "MQTT over WebSocket is at the path /mqtt: ws://HOST%s/mqtt", c.address[strings.LastIndexByte(c.address, ':'):])
	case c.certFile != "":
		name, setting = "mqtts", []string{"mqtts"}
	}
	if b.used[name] {
		b.note(at, "there is one listener of this sort: %s is not taken over", c.address+c.unix)
		return
	}
	b.used[name] = true
	if c.unix != "" {
		b.set(c.unix, setting...)
	} else {
		b.set(c.address, setting...)
	}
	if c.certFile != "" {
		b.set(c.certFile, "tls", "cert")
		b.set(c.key, "tls", "key")
	}
}
