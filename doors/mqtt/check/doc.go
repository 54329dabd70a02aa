// Package check looks at the messages of MQTT clients before anybody gets them:
// whether they are as a JSON Schema says, and how many there are of which topics.
package check
