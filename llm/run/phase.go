package run

import "fmt"

// Phase is how far a run has come.
type Phase string

// The phases of a run. Only Completed is final.
const (
	Running     Phase = "Running"
	WaitingUser Phase = "WaitingUser"
	Completed   Phase = "Completed"
	Failed      Phase = "Failed"
)

// Mode says what a conversation is.
type Mode string

// The modes.
const (
	ModeRun   Mode = "run"   // a workflow is executed
	ModeAgent Mode = "agent" // one of a package's agents is talked to
	ModeChat  Mode = "chat"  // the model is talked to, with tools and no agent
)

// Intent says why a run goes on.
type Intent string

// The intents of a RUN_DIRECTIVE.
const (
	IntentStart    Intent = "start"
	IntentContinue Intent = "continue"
	IntentResume   Intent = "resume"
)

// StopCode says why a run stopped, if not because it was done or has a
// question.
type StopCode string

// Why runs stop. docs/workflows.md maps them to the codes of the bridge.
const (
	MaxTurnsExceeded StopCode = "ENGINE_MAX_TURNS_EXCEEDED"
	LoopDetected     StopCode = "ENGINE_LOOP_DETECTED"
	Aborted          StopCode = "ENGINE_ABORTED"
	StateInvalid     StopCode = "ENGINE_STATE_INVALID" // @state/workflow.md cannot be read any more
	Interrupted      StopCode = "ENGINE_INTERRUPTED"   // the bridge stopped, and whoever started the run may not go on by itself
	EngineInternal   StopCode = "ENGINE_INTERNAL"

	LLMAuthFailed  StopCode = "LLM_AUTH_FAILED"
	LLMTimeout     StopCode = "LLM_TIMEOUT"
	LLMRateLimited StopCode = "LLM_RATE_LIMITED"
	LLMHTTPError   StopCode = "LLM_HTTP_ERROR"
	LLMBadResponse StopCode = "LLM_BAD_RESPONSE"
)

// A Stop is how a run came to rest.
type Stop struct {
	Phase     Phase
	Code      StopCode
	Reason    string     // in words, "" if there is nothing to say
	Message   string     // what the model said last
	Questions []Question // it has asked the user
}

func stopped(phase Phase, code StopCode, format string, args ...any) Stop {
	return Stop{Phase: phase, Code: code, Reason: fmt.Sprintf(format, args...)}
}

// A Question is what a model asks the user.
type Question struct {
	CallID  string   `json:"call_id" doc:"id of the call of ui.ask_user"`
	Text    string   `json:"question" doc:"what is asked"`
	Options []string `json:"options,omitempty" doc:"answers to choose from; others may be given too"`
}
