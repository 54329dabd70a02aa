// Package password recognises MQTT clients by a user name and a password of
// their own: by a file that mosquitto_passwd writes, or by asking an HTTP
// service, as EMQX does. So devices of another broker need no new credential.
package password
