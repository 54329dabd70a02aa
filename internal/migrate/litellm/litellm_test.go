package litellm

import (
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/aibridge/aibridge/llm/model"
)

// deployments is a model_list of deployments, one a line.
func deployments(lines ...string) string {
	return "model_list:\n- " + strings.Join(lines, "\n- ") + "\n"
}

const (
	gpt    = "{model_name: a, litellm_params: {model: openai/gpt-4o}}"
	claude = "{model_name: b, litellm_params: {model: anthropic/claude-sonnet-4-5}}"
)

func TestAConfigurationIsTakenOver(t *testing.T) {
	const openAI = "providers: [{name: openai, wire: openai, base_url: https://api.openai.com/v1, key_env: OPENAI_API_KEY}"
	const both = openAI + ", {name: anthropic, wire: anthropic, base_url: https://api.anthropic.com, key_env: ANTHROPIC_API_KEY}]\n"
	for name, test := range map[string]struct {
		conf, want string
		notes      []string // each begins a note, in order
	}{
		"nothing":      {"", "", nil},
		"no models":    {"model_list: []", "", nil},
		"not a list":   {"model_list: 3", "", []string{"c:1: model_list is not a list"}},
		"not anything": {"[3]", "", []string{"c:1: the configuration is not a mapping", "c:1: there is no model_list"}},
		"one model":    {deployments(gpt), openAI + "]\nmodels: [{name: a, routes: [{provider: openai, model: gpt-4o}]}]", nil},
		"prices and load": {
			deployments("{model_name: a, litellm_params: {model: openai/gpt-4o, weight: 3, rpm: 5}, model_info: {input_cost_per_token: 1.5e-7, output_cost_per_token: 0.00001, id: x}}", gpt),
			openAI + "]\nmodels: [{name: a, routes: [{provider: openai, model: gpt-4o, weight: 3, price: {input: 0.15, output: 10}}, {provider: openai, model: gpt-4o}]}]",
			[]string{"c:2: rpm has no counterpart", "c:2: model_info.id has no counterpart"},
		},
		"every provider": {
			deployments("{model_name: g, litellm_params: {model: gemini/gemini-2.5-pro, api_key: os.environ/G}}",
				"{model_name: z, litellm_params: {model: azure/mine, api_base: 'https://r.openai.azure.com/', api_version: x}}",
				"{model_name: o, litellm_params: {model: ollama/llama3.2}}", "{model_name: r, litellm_params: {model: openrouter/x/y}}",
				"{model_name: v, litellm_params: {model: hosted_vllm/q, api_base: 'http://gpu.lan:8000/v1'}}", "{model_name: p, litellm_params: {model: openai/responses/gpt-5}}"),
			`providers: [{name: gemini, wire: gemini, base_url: https://generativelanguage.googleapis.com, key_env: G}, {name: azure, wire: openai, base_url: https://r.openai.azure.com/openai/v1, key_env: AZURE_API_KEY},
{name: ollama, wire: openai, base_url: http://localhost:11434/v1}, {name: openrouter, wire: openai, base_url: https://openrouter.ai/api/v1, key_env: OPENROUTER_API_KEY},
{name: hosted_vllm, wire: openai, base_url: http://gpu.lan:8000/v1}, {name: openai, wire: responses, base_url: https://api.openai.com/v1, key_env: OPENAI_API_KEY}]
models: [{name: g, routes: [{provider: gemini, model: gemini-2.5-pro}]}, {name: z, routes: [{provider: azure, model: mine}]}, {name: o, routes: [{provider: ollama, model: llama3.2}]},
{name: r, routes: [{provider: openrouter, model: x/y}]}, {name: v, routes: [{provider: hosted_vllm, model: q}]}, {name: p, routes: [{provider: openai, model: gpt-5}]}]`,
			[]string{"c:3: api_version is not needed"},
		},
		"keys": {
			deployments("{model_name: a, litellm_params: {model: openai/x, api_key: sk-hunter2}}", "{model_name: a, litellm_params: {model: openai/y, api_key: sk-hunter2-other}}", "{model_name: a, litellm_params: {model: openai/z, api_base: 'http://gpu.lan/v1'}}"),
			`providers: [{name: openai, wire: openai, base_url: https://api.openai.com/v1, key_file: /keys/openai}, {name: openai-2, wire: openai, base_url: https://api.openai.com/v1, key_file: /keys/openai-2}, {name: openai-3, wire: openai, base_url: http://gpu.lan/v1}]
models: [{name: a, routes: [{provider: openai, model: x}, {provider: openai-2, model: y}, {provider: openai-3, model: z}]}]`,
			[]string{"c:2: a key stands in the configuration and was not copied: write it to /keys/openai", "c:3: a key stands in the configuration and was not copied: write it to /keys/openai-2", `c:4: "a" has an api_base and no api_key`},
		},
		"left out": {
			deployments("{model_name: a, litellm_params: {model: gpt-4o}}", "{model_name: a, litellm_params: {model: bedrock/x}}", "{model_name: '*', litellm_params: {model: openai/x}}",
				"{model_name: a, litellm_params: {model: openai/x, api_base: 'http://user:hunter2@example.com'}}", "{model_name: a, litellm_params: {model: openai/x, api_key: os.environ/}}",
				"{model_name: a, litellm_params: {model: openai/x, api_base: os.environ/BASE}}", "{model_name: a, litellm_params: {model: azure/x, api_base: https://example.com}}",
				"{model_name: a, litellm_params: {model: openai/x, api_base: [https://example.com]}}", "{model_name: a, litellm_params: {model: openai/text-embedding-3-small}}",
				"{model_name: a, litellm_params: {model: openai/x, custom_llm_provider: azure}}", "{model_name: a, litellm_params: {<<: {api_base: x}, model: openai/x}}",
				"{model_name: a, litellm_params: {model: openai/x}, model_info: {mode: rerank}}", "{litellm_params: {model: openai/x}}", "3"),
			openAI + "]",
			[]string{`c:2: the model of "a" is not understood`, `c:3: the model of "a"`, `c:4: "*" cannot be a model`, `c:5: the api_base of "a" cannot be used`, `c:6: the api_key of "a"`, `c:7: the api_base of "a"`,
				`c:8: the api_base of "a"`, `c:9: the api_base of "a"`, `c:10: whether "a" answers or embeds`, "c:11: custom_llm_provider", "c:12: litellm_params is merged", "c:13: the mode is neither", "c:14: a deployment without model_name", "c:15: the deployment is not a mapping", "c:15: a deployment without model_name"},
		},
		"fallbacks and aliases": {
			deployments(gpt, claude) + "router_settings:\n  fallbacks: [{a: [B]}, {b: [a, none]}]\n  model_group_alias: {B: b, H: {model: a, hidden: true}, a: b}\nlitellm_settings:\n  fallbacks: [{a: [b]}]\n  context_window_fallbacks: [{a: [b]}]",
			both + "models: [{name: a, aliases: [H], routes: [{provider: openai, model: gpt-4o}, {provider: anthropic, model: claude-sonnet-4-5, priority: 1}]}, {name: b, aliases: [B], routes: [{provider: anthropic, model: claude-sonnet-4-5}, {provider: openai, model: gpt-4o, priority: 1}]}]",
			[]string{`c:5: a fallback of "b" is left out`, `c:6: "hidden" of an alias`, `c:6: the alias "a" is left out`, `c:8: "a" has fallbacks already`, "c:9: context_window_fallbacks is not taken over"},
		},
		"settings": {
			deployments(gpt) + "litellm_settings: {cache: true, cache_params: {type: redis, ttl: 600, password: hunter2}, drop_params: true, success_callback: [x]}\nrouter_settings: {routing_strategy: least-busy, num_retries: 2}\ngeneral_settings: {master_key: sk-hunter2, database_url: 'postgresql://a:hunter2@b'}\nenvironment_variables: {KEY: hunter2}\nother: hunter2",
			openAI + "]\nmodels: [{name: a, routes: [{provider: openai, model: gpt-4o}]}]\ncache: {ttl: 10m}",
			[]string{"c:3: drop_params is not taken over", "c:3: litellm_settings.success_callback", "c:3: cache_params.password", "c:3: answers are cached", "c:4: the routing strategy", "c:4: num_retries", "c:5: master_key", "c:5: database_url", "c:6: environment_variables", `c:7: "other"`},
		},
		"embeddings": {
			deployments("{model_name: e, litellm_params: {model: openai/m}, model_info: {mode: embedding}}", "{model_name: e, litellm_params: {model: openai/n}, model_info: {mode: embedding}}", "{model_name: e, litellm_params: {model: openai/m}}"),
			openAI + "]\nmodels: [{name: e, kind: embedding, routes: [{provider: openai, model: m}]}]",
			[]string{`c:3: "e" cannot be a model with this deployment`, `c:4: "e" is for answers and for embeddings`},
		},
		"the last of two counts": {
			deployments("{model_name: x, model_name: a, litellm_params: {model: openai/gpt-4o}}"),
			openAI + "]\nmodels: [{name: a, routes: [{provider: openai, model: gpt-4o}]}]", []string{`c:2: "model_name" stands twice`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Read(strings.NewReader(test.conf), "c", "/keys")
			if err != nil {
				t.Fatal(err)
			}
			want, err := model.ParseConfig([]byte(test.want))
			if err != nil {
				t.Fatal(err)
			}
			if text := written(t, got.Config); text != written(t, want) || strings.Contains(text, "hunter2") {
				t.Errorf("the models are\n%s, want\n%s", text, written(t, want))
			}
			for i, n := range got.Notes {
				if len(got.Notes) != len(test.notes) || !strings.HasPrefix(n.String(), test.notes[i]) || strings.Contains(n.String(), "hunter2") {
					t.Errorf("the notes are %q, want %q", got.Notes, test.notes)
					break
				}
			}
			if len(got.Notes) < len(test.notes) {
				t.Errorf("the notes are %q, want %q", got.Notes, test.notes)
			}
		})
	}
}

// written is a configuration as the loader reads it again, and writes it.
func written(t *testing.T, c model.Config) string {
	t.Helper()
	text, err := yaml.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	read, err := model.ParseConfig(text)
	if err != nil {
		t.Fatalf("the loader refuses it: %v\n%s", err, text)
	}
	if err := read.Check(); err != nil {
		t.Fatalf("the check refuses it: %v\n%s", err, text)
	}
	again, err := yaml.Marshal(read)
	if err != nil || string(again) != string(text) {
		t.Fatalf("read again it is\n%s, not\n%s%v", again, text, err)
	}
	return string(text)
}

func TestAConfigurationIsBounded(t *testing.T) {
	many := "x: &x {" + strings.Repeat("k: v, ", 100) + "}\nmodel_list:\n" + strings.Repeat("- *x\n", 600)
	for name, test := range map[string]struct{ conf, want string }{
		"bytes":       {strings.Repeat("#", maxBytes+1), "more than 1048576 bytes"},
		"deployments": {deployments(strings.Fields(strings.Repeat("x ", maxDeployments+1))...), "c:1: more than 1000 deployments"},
		"aliases":     {many, "more than 50000 fields"},
		"not YAML":    {"a: b\nc: *hunter2", "c is not YAML"},
	} {
		if _, err := Read(strings.NewReader(test.conf), "c", "/keys"); err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v, want %s", name, err, test.want)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add(deployments(gpt, claude) + "router_settings: {fallbacks: [{a: [b]}], model_group_alias: {c: a}}\nlitellm_settings: {cache: true, cache_params: {ttl: 5}}")
	f.Add("a: &a [*a]\nmodel_list: *a")
	f.Fuzz(func(t *testing.T, conf string) {
		if got, err := Read(strings.NewReader(conf), "c", "/keys"); err == nil {
			written(t, got.Config)
		}
	})
}
