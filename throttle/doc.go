// Package throttle will hold dispatch throttling: allowance counters, policies, precedence and fairness; pure.
package throttle
