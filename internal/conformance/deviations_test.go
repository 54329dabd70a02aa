package conformance

// leftOut is the probe that sends everything but the parameter.
const leftOut = "left out"

// A parameterDeviation is a parameter that the bridge takes otherwise than the
// document's tables say.
type parameterDeviation struct {
	command, param string
	probe          string // that shows it
	here           string // how the bridge takes it, continuing "PARAM …"
}

func (d *parameterDeviation) name() string { return d.command + " " + d.param + " " + d.probe }

// parameterDeviations are all of them. Most are parameters that the document
// marks as required although its own examples leave them out.
var parameterDeviations = []parameterDeviation{
	{"skill.discover", "space_id", leftOut, "may be left out: the caller's own space"},
	{"skill.discover", "capability", leftOut, "may be left out: skills with any capability"},
	{"skill.invoke", "params", leftOut, "may be left out: no parameters"},
	{"agent.register", "endpoints", leftOut, "may be left out: the agent is reached over its connection"},
	{"resource.list", "space_id", leftOut, "may be left out: the caller's own space"},
	{"resource.list", "type", leftOut, "may be left out: resources of any type"},
	{"scene.declare", "cert_sn", leftOut, "may be left out: the certificate of the connection; a role other than `agent_route` needs none"},
	{"scene.query", "scene_type", leftOut, "may be left out: scenes of any type"},
	{"cap.declare", "cap_desc", leftOut, "may be left out"},
	{"cap.declare", "cap_type", leftOut, "may be left out: `generic`"},
	{"cap.declare", "supported_scenes", leftOut, "may be left out: all"},
	{"cap.declare", "max_members", leftOut, "may be left out: 100"},
	{"cap.declare", "data_storage_type", leftOut, "may be left out: `json`"},
	{"cap.declare", "link_type", leftOut, "may be left out: `bidirectional`"},
	{"cap.declare", "disk_path", leftOut, "may be left out: derived from `cap_id`"},
	{"cap.declare", "group_file_path", leftOut, "may be left out: derived from `cap_id`"},
	{"cap.declare", "links_file_path", leftOut, "may be left out: derived from `cap_id`"},
	{"cap.declare", "sync_enabled", leftOut, "may be left out: true"},
	{"cap.declare", "sync_interval", leftOut, "may be left out: 60"},
	{"cap.query", "skill_id", leftOut, "may be left out: Caps of any skill"},
	{"cap.query", "cap_id", leftOut, "may be left out: all Caps"},
	{"agent.register", "type", "the shortest", "is `mcp_agent`, `route_agent` or `end_agent`"},
	{"agent.register", "type", "the longest", "is `mcp_agent`, `route_agent` or `end_agent`"},
	{"group.data.set", "data_type", "the shortest", "is `string`, `number`, `integer`, `float`, `boolean`, `object`, `array`, `json` or `binary`, and the value is of that type"},
	{"group.data.set", "data_type", "the longest", "is `string`, `number`, `integer`, `float`, `boolean`, `object`, `array`, `json` or `binary`, and the value is of that type"},
	{"cap.vfs.sync", "vfs_path", "too long", "may have 1100 characters"},
}

// deviation is the one that a probe shows, nil if none.
func deviation(command, param, probe string) *parameterDeviation {
	for i := range parameterDeviations {
		if d := &parameterDeviations[i]; d.command == command && d.param == param && d.probe == probe {
			return d
		}
	}
	return nil
}
