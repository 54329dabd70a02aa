package servers

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/aibridge/aibridge/internal/cleartext"
	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/protocol"
)

// A Config is the configuration of one server. It has either a URL or a Command.
type Config struct {
	Name    string            `yaml:"name" doc:"name here: its tools are mcp.{name}.{tool}"`
	URL     string            `yaml:"url" doc:"its streamable HTTP endpoint"`
	Headers map[string]string `yaml:"headers" doc:"headers to send, each as env:NAME or file:PATH; the text before that is sent as it is, as in Bearer env:TOKEN"`
	CA      string            `yaml:"ca" doc:"PEM file with the roots of its web server, instead of the system's"`
	Command []string          `yaml:"command" doc:"program that serves MCP on stdin and stdout, and its arguments"`
	Dir     string            `yaml:"dir" doc:"folder that the program runs in"`
	Env     map[string]string `yaml:"env" doc:"environment of the program besides PATH, HOME and LANG; values may be env:NAME or file:PATH"`

	Approve string        `yaml:"approve" doc:"first: tools, prompts and resources are approved as they are when the server is first seen; each: every one waits for mcp.server.approve; first by default"`
	Trusted bool          `yaml:"trusted" doc:"believe what the server says of the effect of its tools: that they only read, or destroy"`
	Risk    string        `yaml:"risk" doc:"ask: a person has to agree to every call of its tools"`
	Tools   []string      `yaml:"tools" doc:"which of its tools are offered, by pattern; all by default"`
	Prompts []string      `yaml:"prompts" doc:"which of its prompts are offered, by pattern; all by default"`
	Spaces  []string      `yaml:"spaces" doc:"tenants that may use it; * is any; only the default space when empty"`
	Timeout time.Duration `yaml:"timeout" doc:"time that a call may take; 60s by default"`

	Sampling    Sampling `yaml:"sampling" doc:"whether it may ask models meanwhile"`
	Elicitation bool     `yaml:"elicitation" doc:"it may ask whoever calls a tool of it by a form, if their MCP client shows forms"`
	Roots       []string `yaml:"roots" doc:"folders that it is told to work in, as file:// URIs; none by default"`
}

// Ways to approve tools.
const (
	ApproveFirst = "first"
	ApproveEach  = "each"
)

// maxRoots is the greatest number of folders of a server.
const maxRoots = 64

// riskAsk requires an approval of every call; maxTimeout is the longest time limit of a
// call.
const (
	riskAsk    = tools.RiskAsk
	maxTimeout = 10 * time.Minute
)

var nameForm = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,31}$`)

// Check returns the fault of the configuration.
func (c *Config) Check() error {
	switch {
	case !nameForm.MatchString(c.Name):
		return fmt.Errorf("%q is no name: up to 32 lower-case letters, digits, - and _", c.Name)
	case (c.URL == "") == (len(c.Command) == 0):
		return errors.New("one of url and command is needed")
	case len(c.Command) > 0 && (len(c.Headers) > 0 || c.CA != ""):
		return errors.New("headers and ca belong to a url")
	case c.URL != "" && (len(c.Env) > 0 || c.Dir != ""):
		return errors.New("env and dir belong to a command")
	case c.Approve != "" && c.Approve != ApproveFirst && c.Approve != ApproveEach:
		return fmt.Errorf("approve: %q is neither %s nor %s", c.Approve, ApproveFirst, ApproveEach)
	case c.Risk != "" && c.Risk != riskAsk:
		return fmt.Errorf("risk: %q is not %s", c.Risk, riskAsk)
	case c.Timeout < 0 || c.Timeout > maxTimeout:
		return errors.New("timeout: must be between 0 and 10m")
	}
	if c.URL != "" {
		u, err := url.Parse(c.URL)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
			return errors.New("url: must be http or https, without a password")
		}
		if why := cleartext.Exposes(u); why != "" && (len(c.Headers) > 0 || u.RawQuery != "") { // the query may hold a key
			return errors.New("url: " + why)
		}
	}
	for _, uri := range c.Roots {
		if u, err := url.Parse(uri); err != nil || u.Scheme != "file" || u.Host != "" || !strings.HasPrefix(u.Path, "/") || len(uri) > maxURI {
			return fmt.Errorf("roots: %.200q is no URI of a folder, such as file:///srv/shared", uri)
		}
	}
	if len(c.Roots) > maxRoots {
		return fmt.Errorf("roots: more than %d", maxRoots)
	}
	if err := c.Sampling.Check(); err != nil {
		return err
	}
	for name, value := range c.Headers {
		if !strings.Contains(value, "env:") && !strings.Contains(value, "file:") {
			return fmt.Errorf("headers: %s must be env:NAME or file:PATH, so that no secret stands in the configuration", name)
		}
	}
	return nil
}

// asks reports whether the server may send requests while it works on a call.
func (c *Config) asks() bool { return c.Sampling.On || c.Elicitation }

// serves reports whether a principal belongs to a tenant that may use the server.
func (c *Config) serves(who *protocol.Principal) bool {
	if who.Unbounded() || len(c.Spaces) == 0 && who.Home() == protocol.DefaultSpace {
		return true
	}
	return slices.Contains(c.Spaces, "*") || slices.Contains(c.Spaces, string(who.Home()))
}

func (c *Config) timeout() time.Duration {
	if c.Timeout > 0 {
		return c.Timeout
	}
	return time.Minute
}

// resolve returns a value with env:NAME or file:PATH at its end replaced by the
// variable or by the contents of the file.
func resolve(value string) (string, error) {
	if before, name, ok := strings.Cut(value, "env:"); ok {
		text, set := os.LookupEnv(name)
		if !set {
			return "", fmt.Errorf("the variable %s is not set", name)
		}
		return before + text, nil
	}
	if before, path, ok := strings.Cut(value, "file:"); ok {
		data, err := os.ReadFile(path)
		if err != nil {
			return "", fmt.Errorf("the file %s cannot be read", filepath.Base(path))
		}
		return before + strings.TrimSpace(string(data)), nil
	}
	return value, nil
}
