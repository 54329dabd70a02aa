package main

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
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

// TestTheBridgesOfTheComposeFileAreACluster has each bridge of the compose file
// read its settings.
func TestTheBridgesOfTheComposeFileAreACluster(t *testing.T) {
	var compose struct {
		Services map[string]struct{ Environment map[string]string }
		Volumes  map[string]any
	}
	if err := yaml.Unmarshal([]byte(text(t, deploy+"compose.cluster.yaml")), &compose); err != nil {
		t.Fatal(err)
	}
	if len(compose.Services) != 3 {
		t.Fatalf("%d bridges", len(compose.Services))
	}
	for name, service := range compose.Services {
		t.Run(name, func(t *testing.T) {
			for key, value := range service.Environment {
				t.Setenv(key, value)
			}
			var said bytes.Buffer
			cmd := root()
			cmd.SetOut(&said)
			cmd.SetArgs([]string{"serve", "--data", t.TempDir(), "--print-config"})
			if err := cmd.Execute(); err != nil {
				t.Fatal(err)
			}
			var config struct {
				ID      string
				Cluster struct {
					Working, Advertise string
					Join               []string
				}
			}
			if err := yaml.Unmarshal(said.Bytes(), &config); err != nil {
				t.Fatal(err)
			}
			if c := config.Cluster; config.ID != name || c.Working != "all" || !slices.Contains(c.Join, c.Advertise) || !strings.HasPrefix(c.Advertise, name+":") {
				t.Errorf("%+v", config)
			}
			if _, ok := compose.Volumes[name]; !ok {
				t.Errorf("%s has no volume", name)
			}
		})
	}
}

// TestTheSettingsOfThreeMachinesAreSome has a bridge read the settings of the
// page about deployment.
func TestTheSettingsOfThreeMachinesAreSome(t *testing.T) {
	_, settings, found := strings.Cut(text(t, "../../docs/deployment.md"), "```yaml\n")
	settings, _, ended := strings.Cut(settings, "```")
	if !found || !ended {
		t.Fatal("the page shows no settings")
	}
	file := filepath.Join(t.TempDir(), "aibridge.yaml")
	if err := os.WriteFile(file, []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := root()
	cmd.SetOut(new(bytes.Buffer))
	cmd.SetArgs([]string{"serve", "--config", file, "--data", t.TempDir(), "--print-config"})
	if err := cmd.Execute(); err != nil {
		t.Error(err)
	}
}

// TestEveryValueOfTheChartHasASchema keeps misspelt values from being taken.
func TestEveryValueOfTheChartHasASchema(t *testing.T) {
	const chart = deploy + "helm/aibridge/"
	var values, schema map[string]any
	for file, into := range map[string]*map[string]any{"values.yaml": &values, "values.schema.json": &schema} {
		if err := yaml.Unmarshal([]byte(text(t, chart+file)), into); err != nil {
			t.Fatal(err)
		}
	}
	var compare func(path string, value, schema map[string]any)
	compare = func(path string, value, schema map[string]any) {
		known, _ := schema["properties"].(map[string]any)
		if known == nil {
			return // settings and objects of Kubernetes, which have any members
		}
		if schema["additionalProperties"] != false {
			t.Errorf("%s takes any member", path)
		}
		for name, v := range value {
			s, ok := known[name].(map[string]any)
			if !ok {
				t.Errorf("%s.%s has no schema", path, name)
			} else if below, ok := v.(map[string]any); ok {
				compare(path+"."+name, below, s)
			}
		}
	}
	compare("values", values, schema)
	for _, name := range []string{"bridge", "cluster", "llm"} {
		if _, err := os.Stat(chart + "rules/" + name + ".rules.yaml"); err != nil {
			t.Errorf("the chart lacks alerts: %v", err)
		}
	}
}
