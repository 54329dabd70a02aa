package wire

import (
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestNamesFitTheWireAndComeBack(t *testing.T) {
	long := strings.Repeat("a", 80)
	n := NewNames(Charset{Max: 64}, "fs.read", "fs_write", "a.b", "a_b", "a-b", "a/b", long+"1", long+"2", "größe")
	for name, want := range map[string]string{"fs.read": "fs_read", "fs_write": "fs_write", "a_b": "a_b", "a-b": "a-b", "unknown.tool": "unknown.tool"} {
		if got := n.Encode(name); got != want {
			t.Errorf("%s is %s on the wire", name, got)
		}
	}
	marked := n.Encode("a.b")
	if trap := NewNames(Charset{Max: 64}, "a.b", "a_b", marked); trap.Encode(marked) != marked || trap.Encode("a.b") == marked {
		t.Error("a tool takes the calls of another by its name")
	}
	if got := n.Decode("invented"); got != "invented" {
		t.Errorf("a stranger became %s", got)
	}
	if n := NewNames(Charset{Extra: ".:", Max: 64}, "fs.read"); n.Encode("fs.read") != "fs.read" {
		t.Error("a wire that allows dots gets none")
	}
	first := NewNames(Charset{Extra: ".", Max: 64, Letter: true}, "3d.print", "_3d.print", "-x", "a1", strings.Repeat("7", 64))
	for name, want := range map[string]string{"_3d.print": "_3d.print", "-x": "_-x", "a1": "a1"} {
		if got := first.Encode(name); got != want || first.Decode(got) != name {
			t.Errorf("%s is %s on a wire that wants a letter first", name, got)
		}
	}
	if got := first.Encode(strings.Repeat("7", 64)); len(got) != 64 || got[0] != '_' || first.Decode(got) == got {
		t.Errorf("a name of which a character is cut became %s", got)
	}
	if got := first.Encode("3d.print"); got == "_3d.print" || first.Decode(got) != "3d.print" || !letter(got[0]) {
		t.Errorf("a name that was taken became %s", got)
	}
}

// A model is to tell tools apart by their names, whatever script they are in.
func TestNamesOfAllScriptsCanBeRead(t *testing.T) {
	for name, want := range map[string]string{
		"灯.打开": "Deng_Da_Kai", "灯.关闭": "Deng_Guan_Bi", "ランプ.オン": "ranpu_on", "лампа.включить": "lampa_vkliuchit_",
		"λάμπα.άναψε": "lampa_anapse", "größe.ändern": "grosse_andern", "lamp.switch": "lamp_switch", "🔥.on": "__on",
	} {
		if got := NewNames(ToolNames, name).Encode(name); got != want {
			t.Errorf("%s is offered as %s, want %s", name, got, want)
		}
	}
	long := strings.Repeat("灯", 40)
	if got := NewNames(ToolNames, long, long+"打").Encode(long); len(got) != 64 || !strings.HasPrefix(got, "Deng_Deng_") {
		t.Errorf("a long name is offered as %s", got)
	}
	if short := strings.Repeat("灯", 12); NewNames(ToolNames, short).Encode(short) != strings.TrimSuffix(strings.Repeat("Deng_", 12), "_") {
		t.Error("a name that fits is cut for the bytes it has in its own script")
	}
}

func TestNamesAreReversibleWhateverTheyAre(t *testing.T) {
	legal := regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfDistinct(rapid.OneOf(rapid.StringMatching(`[ab][._/-][ab]`), rapid.StringN(1, 90, 200)), rapid.ID[string]).Draw(t, "names")
		n := NewNames(Charset{Max: 64}, names...)
		shuffled := rapid.Permutation(names).Draw(t, "shuffled")
		m := NewNames(Charset{Max: 64}, shuffled...)
		seen := map[string]bool{}
		for _, name := range names {
			fit := n.Encode(name)
			switch {
			case !legal.MatchString(fit):
				t.Fatalf("%q is %q on the wire", name, fit)
			case seen[fit]:
				t.Fatalf("%q is the name of two", fit)
			case n.Decode(fit) != name:
				t.Fatalf("%q came back as %q", name, n.Decode(fit))
			case m.Encode(name) != fit:
				t.Fatalf("the order of %v matters", names)
			}
			seen[fit] = true
		}
	})
}
