// Package fair shares a bounded number of places among principals and their
// spaces, so that one that takes much does not keep others from taking a little: a
// principal has at most a quarter of the places, all principals of a space together
// half of them, and some are kept for administrators. A caller that finds none may
// wait, in a queue that goes round by principals.
package fair
