package conformance

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/internal/app"
	"github.com/aibridge/aibridge/internal/bridgetest"
)

// conversations hold groups of statements against a bridge, over real
// connections. Statements name them.
var conversations = map[string]func(t *testing.T){
	"transports":           talkOverEveryTransport,
	"envelopes":            talkInEnvelopes,
	"versions":             talkInOtherVersions,
	"the way of a command": talkAboutRights,
	"own command":          talkAboutCommandsOfOnesOwn,
	"batches":              talkInBatches,
	"skills":               talkAboutSkills,
	"resources":            talkAboutResources,
	"model of a skill":     talkAboutTheModelOfASkill,
	"model of a Cap":       talkAboutTheModelOfACap,
	"Caps":                 talkAboutCaps,
	"groups":               talkAboutGroups,
	"scenes":               talkAboutScenes,
	"mirrors":              talkAboutMirrors,
	"files":                talkAboutFiles,
	"strangers":            talkToStrangers,
	"models":               talkToModels,
	"ports":                talkAboutPorts,
	"settings of the log":  talkAboutTheLog,
}

// TestConversations has every conversation that statements name.
func TestConversations(t *testing.T) {
	t.Parallel()
	for name, talk := range conversations {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			talk(t)
		})
	}
}

// A talk is with one bridge, over HTTP.
type talk struct {
	*testing.T
	*bridgetest.Node
}

func begin(t *testing.T, change ...func(*app.Config)) talk {
	t.Helper()
	return talk{t, bridgetest.Start(t, change...)}
}

// does runs a command, which must succeed with all of these in its result.
func (k talk) does(command, params string, says ...string) json.RawMessage {
	k.Helper()
	status, answer := post(k.T, k.Node, commandsPath+"/"+command, params)
	if status != http.StatusOK {
		k.Fatalf("%s %s: %d %s", command, params, status, answer)
	}
	k.saysAll(command+" "+params, answer, says)
	return answer
}

// refuses runs a command, which must fail with a code.
func (k talk) refuses(command, params, code string) {
	k.Helper()
	if _, answer := post(k.T, k.Node, commandsPath+"/"+command, params); !strings.Contains(string(answer), `"code":"`+code+`"`) {
		k.Errorf("%s %s: %s, want %s", command, params, answer, code)
	}
}

// sends sends an envelope, whose answer must have all of these.
func (k talk) sends(envelope string, says ...string) {
	k.Helper()
	_, answer := post(k.T, k.Node, commandsPath, envelope)
	k.saysAll(envelope, answer, says)
}

func (k talk) saysAll(asked string, answer []byte, says []string) {
	k.Helper()
	for _, s := range says {
		if !strings.Contains(string(answer), s) {
			k.Errorf("%s: %s, want %s", asked, answer, s)
		}
	}
}

// key makes an API key of a program with one role.
func (k talk) key(name, role string) string {
	k.Helper()
	var made struct {
		Key string `json:"key"`
	}
	k.decode(k.does("key.create", `{"principal_id":"`+name+`","kind":"operator","roles":["`+role+`"]}`), &made)
	return made.Key
}

func (k talk) decode(raw []byte, v any) {
	k.Helper()
	if err := json.Unmarshal(raw, v); err != nil {
		k.Fatalf("%s: %v", raw, err)
	}
}

// word is a JSON text of so many letters.
func word(n int) string { return `"` + strings.Repeat("a", n) + `"` }
