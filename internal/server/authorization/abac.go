package authorization

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/kubernetes/pkg/apis/abac"
	_ "k8s.io/kubernetes/pkg/apis/abac/latest" // registers the versions
	"k8s.io/kubernetes/pkg/apis/abac/v0"
	upstream "k8s.io/kubernetes/pkg/auth/authorizer/abac"
	kjson "sigs.k8s.io/json"

	"github.com/tenantry/tenantry/internal/tenant"
)

// ABAC decides by a policy file (--authorization-policy-file): lines of upstream's
// formats, in which the spec may have two more fields:
//
//	tenant    space    whose users, and where
//	(none)    (none)   those of the system tenant, in the system space
//	system    (none)   the same
//	acme      (none)   those of acme, in its space
//	*         (none)   those of the system tenant, in every tenant's space
//	(none)    acme     those of the system tenant, in the space of acme
//	(none)    *        those of the system tenant, in every tenant's space
//	acme      globex   those of acme, in the space of globex
//
// Users of a tenant can do no more in another tenant's space than a
// TenantAccessPolicy can grant.
type ABAC struct{ policies map[scope]upstream.PolicyList }

// scope says to which tenant's users a line applies, and in which spaces.
// tenant.Everything is the space of every tenant.
type scope struct {
	user tenant.Name
	in   tenant.Scope
}

// newABAC reads a policy file. Errors name file and line.
func newABAC(path string) (*ABAC, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the policy file: %w", err)
	}
	a := &ABAC{policies: make(map[scope]upstream.PolicyList)}
	scanner := bufio.NewScanner(bytes.NewReader(data))
	for number := 1; scanner.Scan(); number++ {
		line := bytes.TrimSpace(scanner.Bytes())
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		s, policy, err := parseLine(line)
		if err != nil {
			return nil, fmt.Errorf("policy file %s, line %d: %w", path, number, err)
		}
		a.policies[s] = append(a.policies[s], policy)
	}
	if err := scanner.Err(); err != nil {
		return nil, fmt.Errorf("reading the policy file %s: %w", path, err)
	}
	return a, nil
}

func parseLine(line []byte) (scope, *abac.Policy, error) {
	s, err := parseScope(line)
	if err != nil {
		return s, nil, err
	}
	decoder := abac.Codecs.UniversalDecoder()
	var head struct{ APIVersion, Kind string }
	if err := json.Unmarshal(line, &head); err != nil {
		return s, nil, err
	}
	policy := &abac.Policy{}
	if head.APIVersion != "" || head.Kind != "" {
		decoded, _, err := decoder.Decode(line, nil, nil)
		if err != nil {
			return s, nil, err
		}
		policy, ok := decoded.(*abac.Policy)
		if !ok {
			return s, nil, fmt.Errorf("%s is no Policy", head.Kind)
		}
		return s, policy, nil
	}
	// The first format has no version.
	old := &v0.Policy{}
	if err := json.Unmarshal(line, old); err != nil {
		return s, nil, err
	}
	return s, policy, abac.Scheme.Convert(old, policy, nil)
}

// Fields of a line, of its spec, and of a line of the first format, which has no
// spec. Upstream ignores unknown fields. Here such a field may be a misspelt tenant,
// without which the line would apply to the system tenant.
var (
	lineFields = sets.New("apiVersion", "kind", "spec")
	specFields = sets.New("user", "group", "readonly", "apiGroup", "resource", "namespace", "nonResourcePath", "tenant", "space")
	oldFields  = sets.New("user", "group", "readonly", "resource", "namespace")
)

// parseScope reads the fields that upstream's formats do not have.
func parseScope(line []byte) (scope, error) {
	fields, err := members(line)
	if err != nil {
		return scope{}, err
	}
	for _, misplaced := range []string{"tenant", "space"} {
		if _, ok := fields[misplaced]; ok {
			return scope{}, fmt.Errorf("%q belongs into the spec of a Policy of abac.authorization.kubernetes.io/v1beta1", misplaced)
		}
	}
	spec, ok := fields["spec"]
	if !ok {
		return scope{tenant.System, tenant.System.Scope()}, checkFields(fields, oldFields.Union(lineFields))
	}
	if err := checkFields(fields, lineFields); err != nil {
		return scope{}, err
	}
	inSpec, err := members(spec)
	if err != nil {
		return scope{}, fmt.Errorf("spec: %w", err)
	}
	if err := checkFields(inSpec, specFields); err != nil {
		return scope{}, fmt.Errorf("spec: %w", err)
	}
	var userTenant, space string
	for name, into := range map[string]*string{"tenant": &userTenant, "space": &space} {
		if raw, ok := inSpec[name]; ok {
			if err := json.Unmarshal(raw, into); err != nil {
				return scope{}, fmt.Errorf("spec.%s: %w", name, err)
			}
		}
	}
	return newScope(userTenant, space)
}

func checkFields(fields map[string]json.RawMessage, known sets.Set[string]) error {
	for name := range fields {
		if !known.Has(name) {
			return fmt.Errorf("unknown field %q", name)
		}
	}
	return nil
}

func newScope(userTenant, space string) (scope, error) {
	if userTenant == "*" {
		if space != "" {
			return scope{}, errors.New(`spec.tenant "*" is short for every tenant's space to users of the system tenant; leave out spec.space, or name the tenant`)
		}
		return scope{tenant.System, tenant.Everything}, nil
	}
	s := scope{user: tenant.System}
	var err error
	if userTenant != "" {
		if s.user, err = parseTenant(userTenant); err != nil {
			return s, fmt.Errorf("spec.tenant: %w", err)
		}
	}
	switch space {
	case "":
		s.in = s.user.Scope()
	case "*":
		s.in = tenant.Everything
	default:
		n, err := parseTenant(space)
		if err != nil {
			return s, fmt.Errorf("spec.space: %w", err)
		}
		s.in = n.Scope()
	}
	if _, of := s.in.Tenant(); s.user != tenant.System && s.in != s.user.Scope() && !of {
		return s, fmt.Errorf("spec.space %q is for users of the system tenant only, not of tenant %q", space, userTenant)
	}
	return s, nil
}

func parseTenant(name string) (tenant.Name, error) {
	if tenant.Scope(name) == tenant.All {
		return "", fmt.Errorf(`%q is reserved; "*" is every tenant's space`, name)
	}
	return tenant.Parse(name)
}

// members returns the members of a JSON object, none of which may occur twice.
func members(object []byte) (result map[string]json.RawMessage, err error) {
	twice, err := kjson.UnmarshalStrict(object, &result, kjson.DisallowDuplicateFields)
	switch {
	case err != nil || result == nil:
		return nil, errors.New("is no JSON object")
	case len(twice) > 0:
		return nil, fmt.Errorf("%w (spec.tenant is whose users, spec.space is where)", twice[0])
	default:
		return result, nil
	}
}

// Authorize implements authorizer.UnconditionalAuthorizer for users in their space, and system
// users anywhere.
func (l *ABAC) Authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	for _, list := range l.listsFor(ctx) {
		if decision, _, err := list.Authorize(ctx, a); err != nil || decision == authorizer.DecisionAllow {
			return decision, "allowed by the ABAC policy file", err
		}
	}
	return authorizer.DecisionNoOpinion, "", nil
}

// RulesFor implements authorizer.RuleResolver.
func (l *ABAC) RulesFor(ctx context.Context, u user.Info, namespace string) ([]authorizer.ResourceRuleInfo, []authorizer.NonResourceRuleInfo, bool, error) {
	var resources []authorizer.ResourceRuleInfo
	var others []authorizer.NonResourceRuleInfo
	for _, list := range l.listsFor(ctx) {
		r, o, _, err := list.RulesFor(ctx, u, namespace)
		if err != nil {
			return nil, nil, false, err
		}
		resources, others = append(resources, r...), append(others, o...)
	}
	return resources, others, false, nil
}

func (l *ABAC) listsFor(ctx context.Context) []upstream.PolicyList {
	in, err := tenant.ScopeFrom(ctx)
	if err != nil {
		return nil
	}
	userTenant, err := tenant.UserTenant(ctx)
	if err != nil {
		return nil
	}
	if in == tenant.All {
		in = tenant.Everything
	}
	lists := []upstream.PolicyList{l.policies[scope{userTenant, in}]}
	if _, of := in.Tenant(); of && userTenant == tenant.System {
		lists = append(lists, l.policies[scope{userTenant, tenant.Everything}])
	}
	return lists
}

// authorizeForeign decides about a user of another tenant in a space. Users with any right
// in the space may also discover its API.
func (l *ABAC) authorizeForeign(ctx context.Context, userTenant, space tenant.Name, a authorizer.Attributes) bool {
	list := l.policies[scope{userTenant, space.Scope()}]
	if len(list) == 0 {
		return false
	}
	if isDiscovery(a) {
		return mentions(ctx, list, a.GetUser())
	}
	if !grantable(a) {
		return false
	}
	decision, _, err := list.Authorize(ctx, a)
	return err == nil && decision == authorizer.DecisionAllow
}

// rulesForeign returns the resource rules of a user of another tenant in a namespace of a
// space. Upstream's rules only distinguish reading and all verbs; requests that cannot be
// granted are refused nonetheless.
func (l *ABAC) rulesForeign(ctx context.Context, userTenant, space tenant.Name, u user.Info, namespace string) []authorizer.ResourceRuleInfo {
	rules, _, _, err := l.policies[scope{userTenant, space.Scope()}].RulesFor(ctx, u, namespace)
	if err != nil {
		return nil
	}
	return rules
}

// mentions reports whether a line applies to a user, in any namespace.
func mentions(ctx context.Context, list upstream.PolicyList, u user.Info) bool {
	return slices.ContainsFunc(list, func(policy *abac.Policy) bool {
		rules, _, _, err := upstream.PolicyList{policy}.RulesFor(ctx, u, policy.Spec.Namespace)
		return err == nil && len(rules) > 0
	})
}
