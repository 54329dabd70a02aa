package run

import (
	"fmt"

	"github.com/aibridge/aibridge/llm/run/fault"
)

// Phase is the state of a run.
type Phase string

// The phases of a run. Only Completed is final.
const (
	Running         Phase = "Running"
	WaitingUser     Phase = "WaitingUser"
	WaitingApproval Phase = "WaitingApproval" // for the approval of a call; the run then continues by itself
	Completed       Phase = "Completed"
	Failed          Phase = "Failed"
)

// Mode is the kind of a run.
type Mode string

// The modes.
const (
	ModeRun   Mode = "run"   // a workflow is executed
	ModeAgent Mode = "agent" // a conversation with an agent of a package
	ModeChat  Mode = "chat"  // a conversation with the model, with tools and no agent
)

// Intent is the reason for which a run continues.
type Intent string

// The intents of a RUN_DIRECTIVE.
const (
	IntentStart    Intent = "start"
	IntentContinue Intent = "continue"
	IntentResume   Intent = "resume"
)

// A Stop is the reason why a run came to rest.
type Stop struct {
	Phase     Phase
	Code      fault.Code // of a failure; "" if the run completed or has a question
	Reason    string     // description of the failure, or ""
	Message   string     // last text of the model
	Questions []Question // open questions to the user

	waits *parking // of WaitingApproval
}

func stopped(phase Phase, code fault.Code, format string, args ...any) Stop {
	return Stop{Phase: phase, Code: code, Reason: fmt.Sprintf(format, args...)}
}

// A Question is a question of a model to the user.
type Question struct {
	CallID  string   `json:"call_id" doc:"id of the call of ui.ask_user"`
	Text    string   `json:"question" doc:"question"`
	Options []string `json:"options,omitempty" doc:"answers to choose from; others may be given too"`
}
