package homeassistant

// words are the abbreviations of keys that are understood here, as Home
// Assistant documents them.
var words = map[string]string{
	"act_t": "action_topic", "act_tpl": "action_template", "avty": "availability", "avty_mode": "availability_mode",
	"avty_t": "availability_topic", "avty_tpl": "availability_template", "bri_cmd_t": "brightness_command_topic",
	"bri_cmd_tpl": "brightness_command_template", "bri_scl": "brightness_scale", "bri_stat_t": "brightness_state_topic",
	"bri_tpl": "brightness_template", "bri_val_tpl": "brightness_value_template", "clr_temp_cmd_t": "color_temp_command_topic",
	"clr_temp_cmd_tpl": "color_temp_command_template", "clr_temp_k": "color_temp_kelvin", "clr_temp_stat_t": "color_temp_state_topic",
	"clr_temp_tpl": "color_temp_template", "clr_temp_val_tpl": "color_temp_value_template", "cmd_off_tpl": "command_off_template",
	"cmd_on_tpl": "command_on_template", "cmd_t": "command_topic", "cmd_tpl": "command_template", "cmps": "components",
	"cod_form": "code_format", "curr_temp_t": "current_temperature_topic", "curr_temp_tpl": "current_temperature_template",
	"dev": "device", "dev_cla": "device_class", "e": "encoding", "en": "enabled_by_default", "exp_aft": "expire_after",
	"fan_mode_cmd_t": "fan_mode_command_topic", "fan_mode_cmd_tpl": "fan_mode_command_template", "fan_mode_stat_t": "fan_mode_state_topic",
	"fan_mode_stat_tpl": "fan_mode_state_template", "fx_cmd_t": "effect_command_topic", "fx_cmd_tpl": "effect_command_template",
	"fx_list": "effect_list", "fx_stat_t": "effect_state_topic", "fx_tpl": "effect_template", "fx_val_tpl": "effect_value_template",
	"ic": "icon", "max_k": "max_kelvin", "max_mirs": "max_mireds", "min_k": "min_kelvin", "min_mirs": "min_mireds",
	"mode_cmd_t": "mode_command_topic", "mode_cmd_tpl": "mode_command_template", "mode_stat_t": "mode_state_topic",
	"mode_stat_tpl": "mode_state_template", "o": "origin", "obj_id": "object_id", "on_cmd_type": "on_command_type",
	"ops": "options", "opt": "optimistic", "p": "platform", "pl_avail": "payload_available", "pl_cls": "payload_close",
	"pl_lock": "payload_lock", "pl_not_avail": "payload_not_available", "pl_off": "payload_off", "pl_on": "payload_on",
	"pl_open": "payload_open", "pl_prs": "payload_press", "pl_rst": "payload_reset", "pl_stop": "payload_stop", "pl_unlk": "payload_unlock",
	"pos_clsd": "position_closed", "pos_open": "position_open", "pos_t": "position_topic", "pos_tpl": "position_template",
	"pr_mode_cmd_t": "preset_mode_command_topic", "pr_mode_cmd_tpl": "preset_mode_command_template",
	"pr_mode_stat_t": "preset_mode_state_topic", "pr_mode_val_tpl": "preset_mode_value_template", "pr_modes": "preset_modes",
	"ret": "retain", "set_pos_t": "set_position_topic", "set_pos_tpl": "set_position_template",
	"stat_cla": "state_class", "stat_clsd": "state_closed", "stat_closing": "state_closing", "stat_jam": "state_jammed",
	"stat_locked": "state_locked", "stat_locking": "state_locking", "stat_off": "state_off", "stat_on": "state_on",
	"stat_open": "state_open", "stat_opening": "state_opening", "stat_stopped": "state_stopped", "stat_t": "state_topic",
	"stat_tpl": "state_template", "stat_unlocked": "state_unlocked", "stat_unlocking": "state_unlocking", "stat_val_tpl": "state_value_template",
	"sup_clrm": "supported_color_modes", "swing_mode_cmd_t": "swing_mode_command_topic", "swing_mode_cmd_tpl": "swing_mode_command_template",
	"swing_mode_stat_t": "swing_mode_state_topic", "swing_mode_stat_tpl": "swing_mode_state_template", "temp_cmd_t": "temperature_command_topic",
	"temp_cmd_tpl": "temperature_command_template", "temp_stat_t": "temperature_state_topic", "temp_stat_tpl": "temperature_state_template",
	"temp_unit": "temperature_unit", "uniq_id": "unique_id", "unit_of_meas": "unit_of_measurement", "val_tpl": "value_template",
}

// deviceWords are those of a device's keys.
var deviceWords = map[string]string{
	"ids": "identifiers", "mf": "manufacturer", "mdl": "model", "sw": "sw_version", "hw": "hw_version", "cu": "configuration_url",
	"cns": "connections", "sa": "suggested_area", "mdl_id": "model_id", "sn": "serial_number",
}
