package password

import (
	"net/url"
	"os"
	"slices"
	"time"

	"github.com/aibridge/aibridge/internal/cleartext"
	"github.com/aibridge/aibridge/protocol"
)

// Settings name the sources of user names and passwords accepted over MQTT. There
// are none by default.
type Settings struct {
	File  string   `yaml:"file" doc:"file with user names and hashes of passwords, as mosquitto_passwd writes it; followed while the bridge runs"`
	Roles []string `yaml:"roles" doc:"roles of those who show a user name and a password; end_agent by default"`

	HTTP HTTPSettings `yaml:"http"`
}

// HTTPSettings name a service that is asked about users that are not in the file.
type HTTPSettings struct {
	URL              string   `yaml:"url" doc:"address of a service that judges user names and passwords, as the HTTP authentication of EMQX"`
	Method           string   `yaml:"method" doc:"post, with the user name and the password as JSON, or get, with them in the address"`
	AuthorizationEnv string   `yaml:"authorization_env" doc:"variable with what to send the service as Authorization; none by default"`
	TimeoutMS        int      `yaml:"timeout_ms" doc:"time that the service may take"`
	CacheSeconds     int      `yaml:"cache_seconds" doc:"time for which a yes is remembered; 0 asks each time"`
	SuperuserRoles   []string `yaml:"superuser_roles" doc:"roles instead of those for whom the service says is_superuser; the same by default"`
}

// DefaultSettings are the settings of a bridge without any configured.
func DefaultSettings() Settings {
	return Settings{HTTP: HTTPSettings{Method: "post", TimeoutMS: 5000, CacheSeconds: 60}}
}

// Check reports each fault of the settings to fail.
func (c *Settings) Check(fail func(format string, args ...any)) {
	h := &c.HTTP
	if !slices.Contains([]string{"get", "post"}, h.Method) {
		fail("passwords.http.method: %q is neither get nor post", h.Method)
	}
	if h.TimeoutMS < 100 || h.TimeoutMS > 60_000 {
		fail("passwords.http.timeout_ms: %d is not within 100 and 60000", h.TimeoutMS)
	}
	if h.CacheSeconds < 0 || h.CacheSeconds > 3600 {
		fail("passwords.http.cache_seconds: %d is not within 0 and 3600", h.CacheSeconds)
	}
	if h.URL == "" {
		return
	}
	u, err := url.Parse(h.URL)
	switch {
	case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Host == "": // the error may show a password
		fail("passwords.http.url: it is not an http or https address")
	case u.User != nil:
		fail("passwords.http.url: a user name or password in the address would be shown; use authorization_env")
	case cleartext.Exposes(u) != "":
		fail("passwords.http.url: %s", cleartext.Exposes(u))
	}
	if name := h.AuthorizationEnv; name != "" && os.Getenv(name) == "" {
		fail("passwords.http.authorization_env: the variable %s is not set", name)
	}
}

// None reports whether no passwords are accepted.
func (c *Settings) None() bool { return c.File == "" && c.HTTP.URL == "" }

func (c *Settings) roles() []string {
	if len(c.Roles) == 0 {
		return []string{protocol.RoleEndAgent}
	}
	return c.Roles
}

func (h *HTTPSettings) timeout() time.Duration { return time.Duration(h.TimeoutMS) * time.Millisecond }
func (h *HTTPSettings) keep() time.Duration    { return time.Duration(h.CacheSeconds) * time.Second }
