package main

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

const deploy = "../../deploy/"

// TestThePackagedSettingsListenOnLoopback reads the settings of the Linux
// packages as the service does.
func TestThePackagedSettingsListenOnLoopback(t *testing.T) {
	cmd := root()
	var said bytes.Buffer
	cmd.SetOut(&said)
	cmd.SetArgs([]string{"serve", "--config", deploy + "package/aibridge.yaml", "--data", t.TempDir(), "--print-config"})
	if err := cmd.Execute(); err != nil {
		t.Fatal(err)
	}
	var config struct {
		MQTT            struct{ Address string }
		HTTP, WS, MQTTS string
		Dev             bool
	}
	if err := yaml.Unmarshal(said.Bytes(), &config); err != nil {
		t.Fatal(err)
	}
	for _, address := range []string{config.MQTT.Address, config.HTTP, config.WS} {
		if !strings.HasPrefix(address, "127.0.0.1:") {
			t.Errorf("the packaged bridge listens on %q", address)
		}
	}
	if config.Dev || config.MQTTS != "" {
		t.Errorf("%+v", config)
	}
}

// TestTheUnitStartsThePackagedBridge keeps the unit, the release and the scripts
// to the same paths.
func TestTheUnitStartsThePackagedBridge(t *testing.T) {
	unit := text(t, deploy+"package/aibridge.service")
	release := text(t, "../../.goreleaser.yaml")
	for _, want := range []string{"ExecStart=/usr/bin/aibridge serve --config /etc/aibridge/aibridge.yaml --data /var/lib/aibridge\n", "User=aibridge\n", "StateDirectory=aibridge\n"} {
		if !strings.Contains(unit, want) {
			t.Errorf("the unit lacks %q", want)
		}
	}
	for _, file := range regexp.MustCompile(`deploy/[\w./-]+`).FindAllString(release, -1) {
		if _, err := os.Stat("../../" + file); err != nil {
			t.Errorf("a release wants %s: %v", file, err)
		}
	}
	for _, path := range []string{"/etc/aibridge/aibridge.yaml", "/usr/lib/systemd/system/aibridge.service"} {
		if !strings.Contains(release, "dst: "+path) {
			t.Errorf("a release does not install %s", path)
		}
	}
}

// TestTheAddOnPassesItsOptionsOn runs the add-on's script with a program in the
// bridge's place.
func TestTheAddOnPassesItsOptionsOn(t *testing.T) {
	for _, tool := range []string{"sh", "jq"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed", tool)
		}
	}
	for name, test := range map[string]struct{ options, want string }{
		"all":  {`{"hosts":["a.local","b.local"],"log_level":"debug","config":"more.yaml"}`, "hosts=a.local,b.local level=debug config=/config/more.yaml"},
		"none": {`{"hosts":[],"log_level":"info"}`, "hosts= level=info config="},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "aibridge"), []byte("#!/bin/sh\necho \"hosts=$AIBRIDGE_HOSTS level=$AIBRIDGE_LOG_LEVEL config=${AIBRIDGE_CONFIG:-} args=$*\"\n"), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "options.json"), []byte(test.options), 0o600); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command("sh", deploy+"homeassistant/aibridge/run.sh")
			cmd.Env = []string{"PATH=" + dir + ":" + os.Getenv("PATH"), "OPTIONS=" + filepath.Join(dir, "options.json")}
			out, err := cmd.CombinedOutput()
			if err != nil || !strings.HasPrefix(string(out), test.want+" args=serve --data /data/bridge") {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
	var addOn struct {
		Slug, Version string
		Ports         map[string]*int
		Options       map[string]any
		Schema        map[string]any
	}
	if err := yaml.Unmarshal([]byte(text(t, deploy+"homeassistant/aibridge/config.yaml")), &addOn); err != nil {
		t.Fatal(err)
	}
	for option := range addOn.Options {
		if addOn.Schema[option] == nil {
			t.Errorf("the option %s has no schema", option)
		}
	}
	if addOn.Slug != "aibridge" || addOn.Ports["1883/tcp"] != nil {
		t.Errorf("%+v", addOn)
	}
}

// TestWorkflowsUseActionsByTheirCommit keeps what runs in CI from changing
// behind a tag.
func TestWorkflowsUseActionsByTheirCommit(t *testing.T) {
	files, err := fs.Glob(os.DirFS("../../.github/workflows"), "*.yml")
	if err != nil || len(files) < 4 {
		t.Fatalf("%v %v", files, err)
	}
	pinned := regexp.MustCompile(`^[\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d`)
	for _, file := range files {
		workflow := text(t, "../../.github/workflows/"+file)
		var parsed struct {
			Permissions map[string]string
			Jobs        map[string]any
		}
		if err := yaml.Unmarshal([]byte(workflow), &parsed); err != nil || len(parsed.Jobs) == 0 {
			t.Errorf("%s: %v", file, err)
		}
		if len(parsed.Permissions) != 1 || parsed.Permissions["contents"] != "read" {
			t.Errorf("%s: its jobs may %v unless they say otherwise", file, parsed.Permissions)
		}
		for line := range strings.Lines(workflow) {
			if _, action, ok := strings.Cut(line, "uses: "); ok && !pinned.MatchString(action) {
				t.Errorf("%s: %s", file, action)
			}
		}
	}
}

func text(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
