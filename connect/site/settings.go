package site

import (
	"math"
	"net/url"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/aibridge/aibridge/internal/cleartext"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/vfs"
)

// Settings say which centre the bridge is a site of, and which sites it has itself.
type Settings struct {
	Join Join   `yaml:"join"`
	Have []Have `yaml:"have" doc:"sites of this bridge, whose names nobody else uses"`
}

// Join makes the bridge a site. Without a name it is none.
type Join struct {
	Name      string   `yaml:"name" doc:"what the site is called at the centre: what names of its agents and skills begin with there, before a dot"`
	URL       string   `yaml:"url" doc:"MQTT address of the centre: mqtts://host:8883, or mqtt:// within a network of one's own"`
	Key       string   `yaml:"key_file" doc:"file with the site's API key at the centre"`
	CA        string   `yaml:"ca" doc:"PEM file with the roots of the centre's certificate, instead of the system's"`
	Principal string   `yaml:"principal" doc:"file with the API key here of who the centre's calls are made for; not needed with dev"`
	Agents    []string `yaml:"agents" doc:"patterns such as lamp-* for the ids of agents that are shown; all end agents of the principal's space if absent"`
	Approvals []string `yaml:"approvals" doc:"patterns such as door.* for tools: calls of them that wait for somebody to agree are decided about at the centre, too; none if absent"`
	Files     []string `yaml:"files" doc:"patterns such as pictures or line-*:all for groups of files that follow to the centre; none if absent"`
	FilesURL  string   `yaml:"files_url" doc:"HTTP address of the centre's files, needed with files: https://host:9010/vfs, or http:// within a network of one's own"`
	Caps      []string `yaml:"caps" doc:"patterns such as line-* for the ids of Caps that are shown, with their groups; none if absent"`
	Budgets   Budgets  `yaml:"budgets"`
}

// Budgets say whether the centre's budgets for language models hold for queries of this
// bridge, and what holds while it cannot be asked.
type Budgets struct {
	Hold  bool  `yaml:"hold" doc:"have the centre's budgets for language models hold for all queries of this bridge"`
	Alone Alone `yaml:"alone"`
}

// Alone is the budget of this bridge while its centre cannot be asked: without limits nothing
// may be spent then.
type Alone struct {
	Window   string  `yaml:"window" doc:"hour, day or month, in UTC, in which this bridge may spend so much while the centre cannot be asked"`
	Tokens   int64   `yaml:"tokens" doc:"most tokens in a window while the centre cannot be asked; without any limit nothing may be spent then"`
	Cost     float64 `yaml:"cost" doc:"most cost in a window while the centre cannot be asked"`
	Requests int64   `yaml:"requests" doc:"most requests in a window while the centre cannot be asked"`
}

// Any reports whether anything may be spent.
func (a *Alone) Any() bool { return a.Tokens > 0 || a.Cost > 0 || a.Requests > 0 }

// A Have is a site of this bridge.
type Have struct {
	Name      string           `yaml:"name" doc:"what the site is called"`
	Principal string           `yaml:"principal" doc:"id of the agent whose API key the site has"`
	Space     protocol.SpaceID `yaml:"space" doc:"space of its key; default if absent"`
	Files     int64            `yaml:"files_bytes" doc:"room in bytes for the files that follow from the site, all their kept versions together; 0: none do"`
	Callers   bool             `yaml:"callers" doc:"tell the site who calls its skills: kind and id, for its audit trail and policies"`
}

// RoleSite is the role of the keys of sites.
const RoleSite = "site"

// Bounds of the sites of a bridge.
const (
	mostSites = 1024
	mostRoom  = 1 << 60 // bytes of files
)

var nameForm = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,31}$`)

const nameRule = "up to 32 lower-case letters, digits, - and _"

// Check reports faults of the settings. With dev no keys are needed.
func (s *Settings) Check(dev bool, fail func(format string, args ...any)) {
	if s.Join.Name != "" || s.Join.URL != "" {
		s.Join.check(dev, fail)
	}
	if len(s.Have) > mostSites {
		fail("sites.have: %d are more than %d", len(s.Have), mostSites)
	}
	names, holders := map[string]bool{}, map[protocol.Party]bool{}
	for i := range s.Have {
		h := &s.Have[i]
		switch {
		case !nameForm.MatchString(h.Name):
			fail("sites.have[%d].name: %q is no name: %s", i, h.Name, nameRule)
		case h.Principal == "":
			fail("sites.have[%d].principal: is missing", i)
		case names[string(h.home())+"/"+h.Name]:
			fail("sites.have[%d].name: there are two sites %q", i, h.Name)
		case h.Files < 0 || h.Files > mostRoom:
			fail("sites.have[%d].files_bytes: %d is not within 0 and %d", i, h.Files, int64(mostRoom))
		case holders[h.party()]:
			fail("sites.have[%d].principal: %q has a site already", i, h.Principal)
		}
		names[string(h.home())+"/"+h.Name], holders[h.party()] = true, true
	}
}

func (j *Join) check(dev bool, fail func(format string, args ...any)) {
	if !nameForm.MatchString(j.Name) {
		fail("sites.join.name: %q is no name: %s", j.Name, nameRule)
	}
	u, err := url.Parse(j.URL)
	switch {
	case err != nil || u.Scheme != "mqtt" && u.Scheme != "mqtts" || u.Hostname() == "" || u.User != nil || strings.Trim(u.Path, "/") != "":
		fail("sites.join.url: must be mqtts://host:port or mqtt://host:port")
	case u.Scheme == "mqtt" && j.Key != "" && !cleartext.Nearby(u.Hostname()):
		fail("sites.join.url: must begin with mqtts://: the key would go to %s in the clear", u.Hostname())
	case u.Scheme == "mqtt" && j.CA != "":
		fail("sites.join.url: must begin with mqtts:// for ca to be of use")
	}
	if j.Principal == "" && !dev {
		fail("sites.join.principal: a file with an API key is needed, of who the centre's calls are made for")
	}
	j.Budgets.check(fail)
	j.checkFiles(fail)
	for name, patterns := range map[string][]string{"agents": j.Agents, "caps": j.Caps, "approvals": j.Approvals, "files": j.Files} {
		for i, pattern := range patterns {
			if _, err := path.Match(pattern, ""); err != nil || pattern == "" {
				fail("sites.join.%s[%d]: %q is no pattern", name, i, pattern)
			}
		}
	}
}

// checkFiles checks where files follow to.
func (j *Join) checkFiles(fail func(format string, args ...any)) {
	if j.FilesURL == "" {
		if len(j.Files) > 0 {
			fail("sites.join.files_url: the HTTP address of the centre's files is needed for files to follow: https://host:9010/vfs")
		}
		return
	}
	u, err := url.Parse(j.FilesURL)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "":
		fail("sites.join.files_url: must be https://host:port/vfs or http://host:port/vfs")
	case u.Scheme == "http" && j.Key != "" && !cleartext.Nearby(u.Hostname()):
		fail("sites.join.files_url: must begin with https://: the key would go to %s in the clear", u.Hostname())
	}
}

// follows reports whether the files of a group follow to the centre. Those of the mirror of
// Caps never do.
func (j *Join) follows(group string) bool { return group != vfs.MirrorGroup && fits(j.Files, group) }

func (b *Budgets) check(fail func(format string, args ...any)) {
	a := &b.Alone
	switch {
	case math.IsNaN(a.Cost) || math.IsInf(a.Cost, 0):
		fail("sites.join.budgets.alone.cost: %v is no amount", a.Cost)
	case a.Tokens < 0 || a.Cost < 0 || a.Requests < 0:
		fail("sites.join.budgets.alone: limits must not be negative")
	case a.Any() && !b.Hold:
		fail("sites.join.budgets.alone: is of use with hold alone")
	}
	if !slices.Contains([]string{"", "hour", "day", "month"}, a.Window) {
		fail("sites.join.budgets.alone.window: %q is none of hour, day and month", a.Window)
	}
}

// shows reports whether an agent is one of those that are shown.
func (j *Join) shows(id protocol.AgentID) bool {
	return len(j.Agents) == 0 || fits(j.Agents, string(id))
}

// showsCap reports whether a Cap is one of those that are shown.
func (j *Join) showsCap(id protocol.CapID) bool { return fits(j.Caps, string(id)) }

// fits reports whether one of some patterns matches an id.
func fits(patterns []string, id string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		ok, _ := path.Match(pattern, id)
		return ok
	})
}

func (h *Have) home() protocol.SpaceID {
	if h.Space == "" {
		return protocol.DefaultSpace
	}
	return h.Space
}

func (h *Have) party() protocol.Party {
	return protocol.Party{Kind: protocol.KindAgent, ID: h.Principal, Space: h.home()}
}

// secret reads a key from a file, "" of none.
func secret(file string) (string, error) {
	if file == "" {
		return "", nil
	}
	text, err := os.ReadFile(file)
	return strings.TrimSpace(string(text)), err
}
