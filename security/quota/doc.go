// Package quota bounds how much principals and spaces take of a bridge:
// commands, messages and bytes a second, connections, retained messages and
// MQTT sessions at a time. Rights are decided by policy alone.
package quota
