package app

import (
	"context"
	"os"
	"path/filepath"
	"strconv"

	"go.opentelemetry.io/otel/trace"

	"github.com/aibridge/aibridge/commands"
	"github.com/aibridge/aibridge/doors/southbound"
	"github.com/aibridge/aibridge/internal/store"
	"github.com/aibridge/aibridge/llm/model"
	"github.com/aibridge/aibridge/protocol"
	"github.com/aibridge/aibridge/security/audit"
)

// LLM says which language models there are: one at an OpenAI-compatible
// service, or what a file says.
type LLM struct {
	BaseURL string `yaml:"base_url" doc:"OpenAI-compatible service that runs the model, as http://127.0.0.1:11434/v1; its key is in AIBRIDGE_LLM_API_KEY"`
	Model   string `yaml:"model" doc:"name of the model at that service"`
	File    string `yaml:"file" doc:"YAML file with providers, models, budgets and more, instead; changes are followed"`
	Agent   string `yaml:"agent" doc:"id of the mcpAgent, the agent that answers for the models"`
}

func defaultLLM() LLM { return LLM{Agent: "mcp-agent-1"} }

// LLMKeyEnv is the environment variable with the key of the service at
// llm.base_url.
const LLMKeyEnv = "AIBRIDGE_LLM_API_KEY"

// llmHistory is the folder in the data folder with every configuration of
// models that was put to work.
const llmHistory = "llm"

// check says what is wrong with the settings.
func (l *LLM) check(fail func(format string, args ...any)) {
	if reason := protocol.AgentID("").Rule().Check(l.Agent); reason != "" {
		fail("llm.agent: %q %s", l.Agent, reason)
	}
	switch {
	case (l.BaseURL == "") != (l.Model == ""):
		fail("llm: base_url and model go together")
	case l.BaseURL != "" && l.File != "":
		fail("llm: base_url and file exclude each other")
	case l.BaseURL != "":
		c := l.simple()
		if err := c.Check(); err != nil {
			fail("llm: %w", err)
		}
	}
}

// simple is the configuration that base_url and model mean.
func (l *LLM) simple() model.Config {
	env := LLMKeyEnv
	if os.Getenv(env) == "" { // a service on this machine often wants none
		env = ""
	}
	return model.Simple(l.BaseURL, l.Model, env)
}

// newModels makes the part that asks language models. Its table is loaded
// afterwards.
func (a *App) newModels(tracer trace.Tracer) {
	a.models = model.New(model.Options{
		Spent:      store.NewTable[model.Spent](a.store, "llmspent").Essential(),
		Configured: a.llmConfigured,
		Log:        a.log,
		Tracer:     tracer,
		Registerer: a.metrics,
	})
	a.mcpAgent.llm = a.models
}

// openLLM puts the configuration of models to work. Without one there are no
// models, and the commands say so.
func (a *App) openLLM() error {
	a.run("language models", a.models.Run)
	switch l := &a.config.LLM; {
	case l.File != "":
		file, err := model.OpenFile(a.models, l.File, filepath.Join(a.config.Data, llmHistory))
		if err != nil {
			return err
		}
		a.run("configuration of language models", file.Run)
	case l.BaseURL != "":
		if _, err := a.models.Configure(l.simple()); err != nil {
			return err
		}
	}
	return nil
}

// southbound answers requests of the southbound dialect, in the name of the
// mcpAgent.
func (a *App) southbound() *southbound.Translator {
	return southbound.New(southbound.Options{
		Router: a.router,
		Self:   protocol.Side{Component: "mcpAgent", ID: a.config.LLM.Agent},
		Limits: a.limits(),
	})
}

// mayAskFor says why a caller may not ask on behalf of a skill that is not
// itself.
func (a *App) mayAskFor(ctx context.Context, call *commands.Call, skill string) error {
	if a.authorizer.ActFor(ctx, call.Principal, skill) == nil {
		return nil
	}
	return protocol.Errorf(protocol.PermissionDenied, "skill_id is not yours").
		With("param_name", "skill_id").
		With("reason", "must be the authenticated identity, or a skill that it registered or provides")
}

// llmConfigured records that the models are configured anew, or why not.
func (a *App) llmConfigured(c model.Configured) {
	entry := audit.Entry{Event: "llm.configured", Code: audit.OK, Security: true, Resource: "llm/" + strconv.FormatUint(c.Revision, 10)}
	if c.Err != nil {
		entry.Event, entry.Code, entry.Reason, entry.Resource = "llm.refused", string(protocol.InvalidParameter), "the file is wrong; the log says why", ""
	}
	a.audit.Record(context.Background(), entry)
	a.mcpAgent.changed()
}
