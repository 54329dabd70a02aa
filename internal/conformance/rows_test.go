package conformance

// A kind is a type of parameter, as the document's tables name it.
type kind string

const (
	text     kind = "String"
	integer  kind = "Integer"
	boolean  kind = "Boolean"
	object   kind = "Object"
	list     kind = "Array[String]"
	anything kind = "Any"
)

// A row is one parameter of a command in the tables of section 5: its bounds
// are characters of a text, items of a list, or the value of an integer; 0 and
// 0 for none. The document marks every one of them as required.
type row struct {
	command, param string
	kind           kind
	least, most    int
	example        string // JSON
}

// rows are all parameters of the document, in its order.
var rows = []row{
	{"skill.discover", "space_id", text, 1, 64, `"home_space_001"`},
	{"skill.discover", "capability", text, 1, 128, `"temperature_sensor"`},
	{"skill.invoke", "skill_id", text, 1, 64, `"temperature_converter_001"`},
	{"skill.invoke", "capability_id", text, 1, 64, `"celsius_to_fahrenheit"`},
	{"skill.invoke", "params", object, 0, 0, `{"celsius": 25}`},
	{"agent.register", "agent_id", text, 1, 64, `"route_agent_001"`},
	{"agent.register", "type", text, 1, 32, `"route_agent"`},
	{"agent.register", "endpoints", list, 1, 10, `["http://192.168.1.100:9010", "ws://192.168.1.100:9011"]`},
	{"agent.unregister", "agent_id", text, 1, 64, `"route_agent_001"`},
	{"resource.list", "space_id", text, 1, 64, `"home_space_001"`},
	{"resource.list", "type", text, 1, 32, `"device"`},
	{"resource.get", "resource_id", text, 1, 64, `"device_001"`},
	{"scene.declare", "scene_type", text, 1, 32, `"SMART_HOME"`},
	{"scene.declare", "skill_id", text, 1, 64, `"smart_home_controller_001"`},
	{"scene.declare", "skill_role", text, 1, 32, `"agent_route"`},
	{"scene.declare", "is_owner_declaration", boolean, 0, 0, `false`},
	{"scene.declare", "cap_id", text, 1, 64, `"smart_home_channel_001"`},
	{"scene.declare", "cert_sn", text, 16, 16, `"8a1b2c3d4e5f6a7b"`},
	{"scene.declare.cancel", "scene_type", text, 1, 32, `"SMART_HOME"`},
	{"scene.declare.cancel", "skill_id", text, 1, 64, `"smart_home_controller_001"`},
	{"scene.declare.cancel", "cap_id", text, 1, 64, `"smart_home_channel_001"`},
	{"scene.query", "scene_type", text, 1, 32, `"SMART_HOME"`},
	{"cap.declare", "cap_id", text, 1, 64, `"device_control_cap_001"`},
	{"cap.declare", "cap_name", text, 1, 128, `"Device control"`},
	{"cap.declare", "cap_desc", text, 1, 512, `"Controls the devices of a home"`},
	{"cap.declare", "skill_id", text, 1, 64, `"smart_home_controller_001"`},
	{"cap.declare", "cap_type", text, 1, 32, `"device_control"`},
	{"cap.declare", "supported_scenes", list, 1, 10, `["SMART_HOME", "OFFICE_AUTOMATION"]`},
	{"cap.declare", "max_members", integer, 1, 1000, `100`},
	{"cap.declare", "data_storage_type", text, 1, 32, `"json"`},
	{"cap.declare", "link_type", text, 1, 32, `"bidirectional"`},
	{"cap.declare", "disk_path", text, 1, 256, `"/var/cap_data/device_control"`},
	{"cap.declare", "group_file_path", text, 1, 256, `"/var/cap_data/device_control/group.json"`},
	{"cap.declare", "links_file_path", text, 1, 256, `"/var/cap_data/device_control/links.json"`},
	{"cap.declare", "sync_enabled", boolean, 0, 0, `true`},
	{"cap.declare", "sync_interval", integer, 1, 3600, `60`},
	{"cap.update", "cap_id", text, 1, 64, `"device_control_cap_001"`},
	{"cap.update", "cap_info", object, 0, 0, `{"cap_name": "Device control, updated", "sync_interval": 30}`},
	{"cap.query", "skill_id", text, 1, 64, `"smart_home_controller_001"`},
	{"cap.query", "cap_id", text, 1, 64, `"device_control_cap_001"`},
	{"cap.remove", "cap_id", text, 1, 64, `"device_control_cap_001"`},
	{"group.member.add", "group_id", text, 1, 64, `"smart_home_group_001"`},
	{"group.member.add", "skill_id", text, 1, 64, `"temperature_sensor_001"`},
	{"group.member.add", "role", text, 1, 32, `"sensor"`},
	{"group.member.add", "cap_id", text, 1, 64, `"smart_home_channel_001"`},
	{"group.member.remove", "group_id", text, 1, 64, `"smart_home_group_001"`},
	{"group.member.remove", "skill_id", text, 1, 64, `"temperature_sensor_001"`},
	{"group.member.remove", "cap_id", text, 1, 64, `"smart_home_channel_001"`},
	{"group.link.add", "group_id", text, 1, 64, `"smart_home_group_001"`},
	{"group.link.add", "source_skill_id", text, 1, 64, `"temperature_sensor_001"`},
	{"group.link.add", "target_skill_id", text, 1, 64, `"air_conditioner_001"`},
	{"group.link.add", "link_type", text, 1, 32, `"data_flow"`},
	{"group.link.add", "cap_id", text, 1, 64, `"smart_home_channel_001"`},
	{"group.link.remove", "group_id", text, 1, 64, `"smart_home_group_001"`},
	{"group.link.remove", "source_skill_id", text, 1, 64, `"temperature_sensor_001"`},
	{"group.link.remove", "target_skill_id", text, 1, 64, `"air_conditioner_001"`},
	{"group.link.remove", "cap_id", text, 1, 64, `"smart_home_channel_001"`},
	{"group.data.set", "group_id", text, 1, 64, `"smart_home_group_001"`},
	{"group.data.set", "data_key", text, 1, 64, `"temperature"`},
	{"group.data.set", "data_value", anything, 0, 0, `25`},
	{"group.data.set", "data_type", text, 1, 32, `"number"`},
	{"group.data.set", "cap_id", text, 1, 64, `"smart_home_channel_001"`},
	{"group.data.get", "group_id", text, 1, 64, `"smart_home_group_001"`},
	{"group.data.get", "data_key", text, 1, 64, `"temperature"`},
	{"group.data.get", "cap_id", text, 1, 64, `"smart_home_channel_001"`},
	{"cap.vfs.sync", "cap_id", text, 1, 64, `"device_control_cap_001"`},
	{"cap.vfs.sync", "vfs_path", text, 1, 256, `"/vfs/cap/device_control_cap_001/group.json"`},
	{"cap.vfs.sync.status", "cap_id", text, 1, 64, `"device_control_cap_001"`},
	{"cap.vfs.recover", "cap_id", text, 1, 64, `"device_control_cap_001"`},
}
