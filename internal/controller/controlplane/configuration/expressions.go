package configuration

import (
	"fmt"

	"k8s.io/apiserver/pkg/apis/apiserver"
)

const (
	// mostExpressions is how many expressions a file has at most: each takes some 30 kB once it is compiled.
	mostExpressions = 500
	// expressionBytes is how long they are at most together: 16 bytes of a pattern can take 100 kB, and a millisecond.
	expressionBytes = 16 << 10
)

// checkExpressions refuses what takes long, or much memory, to be compiled.
func checkExpressions(all []string) error {
	length := 0
	for _, expression := range all {
		length += len(expression)
	}
	if len(all) > mostExpressions || length > expressionBytes {
		return fmt.Errorf("it has %d expressions of %d bytes together, and may have %d of %d: leave some out, or make them shorter",
			len(all), length, mostExpressions, expressionBytes)
	}
	return nil
}

// expressionsOf returns the expressions of CEL.
func expressionsOf(c *apiserver.AuthenticationConfiguration) []string {
	var all []string
	add := func(expression string) {
		if expression != "" {
			all = append(all, expression)
		}
	}
	for i := range c.JWT {
		jwt := &c.JWT[i]
		for _, expression := range []string{jwt.ClaimMappings.Username.Expression, jwt.ClaimMappings.Groups.Expression, jwt.ClaimMappings.UID.Expression} {
			add(expression)
		}
		for _, mapping := range jwt.ClaimMappings.Extra {
			add(mapping.ValueExpression)
		}
		for _, rule := range jwt.ClaimValidationRules {
			add(rule.Expression)
		}
		for _, rule := range jwt.UserValidationRules {
			add(rule.Expression)
		}
	}
	return all
}

// conditionsOf returns the expressions of CEL.
func conditionsOf(c *apiserver.AuthorizationConfiguration) []string {
	var all []string
	for i := range c.Authorizers {
		if webhook := c.Authorizers[i].Webhook; webhook != nil {
			for _, condition := range webhook.MatchConditions {
				all = append(all, condition.Expression)
			}
		}
	}
	return all
}
