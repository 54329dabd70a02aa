// Package pack reads workflow packages: a zip with a manifest (bmad.json),
// workflows, their graphs and steps, agents and assets, in format version 1.1.
//
// A loaded package was checked: every file that the others refer to exists and has its
// shape, and every graph can be walked. See docs/workflow-files.md.
package pack

import (
	"encoding/json"
	"maps"
)

// A Package is a loaded package. It is immutable.
type Package struct {
	Manifest  Manifest
	Agents    []Agent
	Workflows []*Workflow // the entry first
	Warnings  []string    // oddities that harm nothing
	SHA256    [32]byte    // of the zip, zero without one

	files map[string][]byte
}

// A Manifest is bmad.json.
type Manifest struct {
	SchemaVersion string          `json:"schemaVersion"`
	Name          string          `json:"name"`
	Version       string          `json:"version"` // SemVer
	Description   string          `json:"description,omitempty"`
	Author        string          `json:"author,omitempty"`
	CreatedAt     string          `json:"createdAt,omitempty"`
	Entry         Entry           `json:"entry"`
	Workflows     []WorkflowEntry `json:"workflows,omitempty"`
	Runtime       struct {
		MinRuntimeVersion string `json:"minRuntimeVersion,omitempty"`
		RequiresNetwork   bool   `json:"requiresNetwork,omitempty"`
	} `json:"runtime"`
	Integrity struct {
		SHA256 string `json:"sha256,omitempty"` // declared by the author; it cannot match a zip that contains it
	} `json:"integrity"`
}

// An Entry names the files a package begins with.
type Entry struct {
	Workflow  string `json:"workflow"`
	Graph     string `json:"graph"`
	Agents    string `json:"agents"`
	AssetsDir string `json:"assetsDir,omitempty"`
}

// A WorkflowEntry is one workflow of the manifest.
type WorkflowEntry struct {
	ID          string   `json:"id"`
	Workflow    string   `json:"workflow"`
	Graph       string   `json:"graph"`
	DisplayName string   `json:"displayName,omitempty"`
	Description string   `json:"description,omitempty"`
	Tags        []string `json:"tags,omitempty"`
}

// A Workflow is a loaded workflow.
type Workflow struct {
	WorkflowEntry // the paths are in the package; ID is the path of workflow.md if the manifest lists no workflows
	Text          []byte
	State         State // of workflow.md in the package
	Graph         *Graph
	Steps         map[string]StepFile // by node id
}

// A StepFile is the file of a node.
type StepFile struct {
	Path string
	Meta StepMeta
	Body string // below the frontmatter
}

// StepMeta is the frontmatter of a step.
type StepMeta struct {
	SchemaVersion string       `json:"schemaVersion"`
	NodeID        string       `json:"nodeId"`
	Type          NodeType     `json:"type"`
	Title         string       `json:"title,omitempty"`
	AgentID       string       `json:"agentId,omitempty"`
	Inputs        []string     `json:"inputs,omitempty"`
	Outputs       []string     `json:"outputs,omitempty"`
	SetsVariables []string     `json:"setsVariables,omitempty"`
	Transitions   []Transition `json:"transitions,omitempty"`
}

// A Transition is a step's description of an edge that leaves it. The graph alone counts.
type Transition struct {
	To            string `json:"to"`
	Label         string `json:"label"`
	IsDefault     bool   `json:"isDefault,omitempty"`
	ConditionText string `json:"conditionText,omitempty"`
}

// A State is the frontmatter of workflow.md: the position of a run.
type State struct {
	SchemaVersion  string         `json:"schemaVersion"`
	WorkflowType   string         `json:"workflowType"`
	CurrentNodeID  string         `json:"currentNodeId"` // "" means the entry node
	StepsCompleted []string       `json:"stepsCompleted"`
	Variables      map[string]any `json:"variables,omitempty"`
	DecisionLog    []LoggedChoice `json:"decisionLog,omitempty"`
	Artifacts      []string       `json:"artifacts,omitempty"`
	RunID          string         `json:"runId,omitempty"`
	ProjectName    string         `json:"project_name,omitempty"`
	UserName       string         `json:"user_name,omitempty"`
	Date           string         `json:"date,omitempty"`
	UpdatedAt      string         `json:"updatedAt,omitempty"` // RFC 3339
}

// A LoggedChoice is a decision that was taken.
type LoggedChoice struct {
	From      string `json:"from" doc:"id of the node at which the decision was taken"`
	To        string `json:"to" doc:"id of the node that follows"`
	Label     string `json:"label" doc:"label of the edge that was chosen"`
	Reason    string `json:"reason,omitempty" doc:"reason for the choice, as the workflow wrote it; absent if it wrote none"`
	DecidedAt string `json:"decidedAt,omitempty" doc:"time of the decision, as the workflow wrote it (RFC 3339 by convention); absent if it wrote none"`
}

// Workflow finds a workflow by its id or the path of its workflow.md; "" is
// the entry. It is nil if there is none.
func (p *Package) Workflow(ref string) *Workflow {
	for _, w := range p.Workflows {
		if ref == "" || ref == w.ID || ref == w.WorkflowEntry.Workflow {
			return w
		}
	}
	return nil
}

// Agent finds an agent, nil if there is none.
func (p *Package) Agent(id string) *Agent {
	for i := range p.Agents {
		if p.Agents[i].ID == id {
			return &p.Agents[i]
		}
	}
	return nil
}

// Files returns all files by their path; their contents must not be changed.
func (p *Package) Files() map[string][]byte { return maps.Clone(p.files) }

// An Agent is an agent of agents.json.
type Agent struct {
	ID                      string            `json:"id"`
	Metadata                Metadata          `json:"metadata"`
	Persona                 Persona           `json:"persona"`
	CriticalActions         []string          `json:"critical_actions,omitempty"`
	Prompts                 []Prompt          `json:"prompts,omitempty"`
	Menu                    []MenuItem        `json:"menu,omitempty"`
	SystemPrompt            string            `json:"systemPrompt,omitempty"`
	UserPromptTemplate      string            `json:"userPromptTemplate,omitempty"`
	Discussion              bool              `json:"discussion,omitempty"`
	Webskip                 bool              `json:"webskip,omitempty"`
	ConversationalKnowledge []json.RawMessage `json:"conversational_knowledge,omitempty"`
	Tools                   ToolPolicy        `json:"tools"`
}

// Metadata is the self-description of an agent.
type Metadata struct {
	Name        string `json:"name"`
	Title       string `json:"title"`
	Icon        string `json:"icon"`
	Module      string `json:"module,omitempty"`
	Description string `json:"description,omitempty"`
	SourceID    string `json:"sourceId,omitempty"`
}

// Persona is the role of an agent for a model.
type Persona struct {
	Role               string     `json:"role"`
	Identity           string     `json:"identity"`
	CommunicationStyle string     `json:"communication_style"`
	Principles         Principles `json:"principles"`
}

// Principles are a text or a list; a text is a list of one.
type Principles []string

// UnmarshalJSON implements [json.Unmarshaler].
func (p *Principles) UnmarshalJSON(data []byte) error {
	var one string
	if json.Unmarshal(data, &one) == nil {
		*p = Principles{one}
		return nil
	}
	return json.Unmarshal(data, (*[]string)(p))
}

// A Prompt is a text of an agent that its menu refers to as #id.
type Prompt struct {
	ID          string `json:"id"`
	Content     string `json:"content"`
	Description string `json:"description,omitempty"`
}

// A MenuItem is one offer of an agent.
type MenuItem struct {
	Description string           `json:"description"`
	Trigger     string           `json:"trigger,omitempty"`
	Triggers    []map[string]any `json:"triggers,omitempty"`
	Cmd         string           `json:"cmd,omitempty"`
	Workflow    string           `json:"workflow,omitempty"`
	Exec        string           `json:"exec,omitempty"`
	Action      string           `json:"action,omitempty"`
	Data        string           `json:"data,omitempty"`
	IDEOnly     bool             `json:"ide-only,omitempty"`
	WebOnly     bool             `json:"web-only,omitempty"`
}

// A ToolPolicy is the tool policy of an agent; nil fields are defaults. Package run
// combines it with the policy of the system.
type ToolPolicy struct {
	FS *struct {
		Enabled       *bool  `json:"enabled,omitempty"` // true if nil
		MaxReadBytes  *int64 `json:"maxReadBytes,omitempty"`
		MaxWriteBytes *int64 `json:"maxWriteBytes,omitempty"`
	} `json:"fs,omitempty"`
	MCP *struct {
		Enabled        *bool     `json:"enabled,omitempty"`        // false if nil
		AllowedServers *[]string `json:"allowedServers,omitempty"` // an empty list allows none
	} `json:"mcp,omitempty"`
	Bridge *struct {
		AllowedTools *[]string `json:"allowedTools,omitempty"` // names or patterns such as thermostat.*; an empty list allows none
	} `json:"bridge,omitempty"`
}
