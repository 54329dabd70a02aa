package bridge

import (
	"regexp"
	"strings"
	"testing"

	"github.com/aibridge/aibridge/llm/tools"
	"github.com/aibridge/aibridge/llm/wire"
	"github.com/aibridge/aibridge/protocol"
)

// A lamp in twelve scripts: its name, and what switches it on and off.
var lamps = [][3]string{
	{"lamp", "switch_on", "switch_off"},
	{"灯", "打开", "关闭"},
	{"ランプ", "オン", "オフ"},
	{"램프", "켜기", "끄기"},
	{"лампа", "включить", "выключить"},
	{"λάμπα", "άναψε", "σβήσε"},
	{"مصباح", "تشغيل", "إيقاف"},
	{"מנורה", "הדלק", "כבה"},
	{"दीपक", "चालू", "बंद"},
	{"โคมไฟ", "เปิด", "ปิด"},
	{"ნათურა", "ჩართვა", "გამორთვა"},
	{"լամպ", "միացնել", "անջատել"},
}

// A model reads the name of a tool as its wire spells it, and its description.
// Both must tell any two tools apart, and the description has the real names.
func TestToolsOfAnyScriptCanBeToldApart(t *testing.T) {
	w := newWorld(t)
	for i, lamp := range lamps {
		w.add(int64(i+1), protocol.SkillID(lamp[0]),
			Capability{ID: protocol.CapabilityID(lamp[1])}, Capability{ID: protocol.CapabilityID(lamp[2])})
	}
	box, err := tools.New(w.skills).Select(t.Context(), ada, []string{"*"})
	if err != nil || len(box.Tools()) != 2*len(lamps) {
		t.Fatalf("%d tools, %v", len(box.Tools()), err)
	}
	readable := regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]*$`)
	spelled, described := make(map[string]string), make(map[string]string)
	for _, offer := range box.ChatTools() {
		name := box.Spelling(offer.Name)
		if other, taken := spelled[name]; taken {
			t.Errorf("%s and %s are both %s", offer.Name, other, name)
		}
		if letters := regexp.MustCompile(`[A-Za-z]`).FindAllString(name, -1); !readable.MatchString(name) || len(letters) < 4 {
			t.Errorf("%s is offered as %s", offer.Name, name)
		}
		if other, taken := described[offer.Description]; taken {
			t.Errorf("%s and %s are both described as %s", offer.Name, other, offer.Description)
		}
		skill, capability, _ := strings.Cut(offer.Name, ".")
		if !strings.Contains(offer.Description, skill) || !strings.Contains(offer.Description, capability) {
			t.Errorf("%s is described as %s", offer.Name, offer.Description)
		}
		spelled[name], described[offer.Description] = offer.Name, offer.Name
	}
	if all := wire.NewNames(wire.ToolNames, "灯.打开"); all.Decode(box.Spelling("灯.打开")) != "灯.打开" {
		t.Error("a hint is spelled otherwise than the offer")
	}
}
