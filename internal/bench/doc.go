// Package bench measures MQTT brokers, that of this project and foreign ones, under the
// same load in the same minute on the same machine.
//
// [MQTT] puts brokers that run as processes of their own under a set of [Scenario]s in
// turn, several rounds of it, and reports message rate, latency, the broker's processor
// time as the operating system counts it, memory, and ratios to the first broker.
// [Invoke] compares skill.invoke through a whole bridge with bare request and reply
// between the same two clients through plain brokers.
//
// The load comes from clients made for the purpose: packets encoded beforehand, a
// handful of threads that wait for all sockets at once (epoll), nothing allocated while
// they run. Every message carries its number, so that each run also counts lost,
// doubled and misordered messages: a rate with losses is no rate. Everything stays on
// 127.0.0.1 and is bounded in time, messages and connections. The load generator and
// the figures of processes need Linux.
package bench
