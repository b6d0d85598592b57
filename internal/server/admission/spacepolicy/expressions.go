package spacepolicy

import (
	"context"
	"fmt"
	"math"
	"reflect"
	"sync"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/kubernetes/pkg/apis/admissionregistration"
	"k8s.io/kubernetes/pkg/apis/resource"
	"k8s.io/utils/lru"

	"github.com/tenantry/tenantry/internal/server/expression"
	"github.com/tenantry/tenantry/internal/tenant"
)

// The most expressions of an object and of all in a space, which take some 30 kB of memory
// each as long as the object exists, those of definitions more.
const (
	maxExpressions        = 500
	maxExpressionsInSpace = 2_000
	// maxExpressionBytes are those of one expression, in a definition as well: upstream's bound for selectors of
	// devices. To compile one takes 1.5 to 3.5 kB of memory for each, and its program keeps 110 bytes.
	maxExpressionBytes = 10 << 10
	// maxNodes are those of one expression when macros are written out, and maxNodesInObject those of all in an object.
	// The longest public one has 1,270 bytes. Types are checked by the square of the nodes: 10 KiB of nested macros
	// took 20 s and 5 GB of garbage.
	maxNodes         = 2_000
	maxNodesInObject = 50_000
	// maxInstructionsInSpace are those of the patterns in all expressions of policies and webhooks, and as many in
	// those of definitions. Upstream keeps them compiled: 50 to 70 bytes each.
	maxInstructionsInSpace = 200_000
	// maxWebhooksInSpace are those of all configurations. Upstream calls all that a write matches at once, keeps
	// clients of 200, and makes one anew for each call of others.
	maxWebhooksInSpace = 200
	// maxEntriesInSpace are those in all lists and maps of policies, their bindings and webhooks, such as names of
	// resources and labels: each write in the space is compared with them. Each object, and each webhook, counts for
	// matchEntries beside them.
	maxEntriesInSpace = 20_000
	matchEntries      = 5
	// maxRules is four times what the largest of the public definitions has. Each takes 60 to 130 kB of memory.
	maxRules        = 1_500
	maxRulesInSpace = 5_000
	// maxDefinitionBytes are those of all definitions of a space, which OpenAPI documents have several times.
	maxDefinitionBytes = 64 << 20
	// maxSchemas is twice what the largest of the public definitions has. Each takes 1 to 1.6 kB of memory in what
	// upstream makes of it, and as much in OpenAPI documents.
	maxSchemas        = 25_000
	maxSchemasInSpace = 100_000
	// maxVersionsInSpace are those of all definitions. Each has storage with a watch cache, which takes some 180 kB of
	// memory however small it is, and paths in OpenAPI documents, which take 800 kB for two minutes after these were read.
	// The 237 definitions of 25 charts have some 300.
	maxVersionsInSpace = 600
)

// Expressions are the CEL expressions that there are in a space.
type Expressions struct {
	// Policies returns what admission policies and configurations of webhooks cost, by PolicyKey, in a map that the
	// caller may change.
	Policies func(n tenant.Name) map[string]PolicyCosts
	// Definitions returns what those have, by their names, in a map that the caller may change.
	Definitions func(n tenant.Name) map[string]DefinitionCosts
}

// PolicyCosts are what an admission policy, a binding of one, or a configuration of webhooks, costs as long as it
// exists.
type PolicyCosts struct {
	Expressions, Webhooks, Entries int
	// Longest are the bytes of the longest expression, Most the nodes of the one that has the most, and Nodes those of
	// all.
	Longest, Most, Nodes int
	// Instructions are those of all patterns in expressions.
	Instructions int
}

// PolicyKey is that of an object in what Expressions.Policies returns.
func PolicyKey(resource, name string) string { return resource + "/" + name }

// DefinitionCosts are what definitions cost as long as they exist.
type DefinitionCosts struct {
	// Rules are the CEL rules in all versions, and Instructions those of the patterns in them.
	Rules, Instructions int
	// Schemas are those of all values in all versions.
	Schemas int
	// Versions are those of the definition.
	Versions int
	// Bytes are those in the encoding in which definitions are sent most briefly.
	Bytes int
}

// Costs remembers what definitions cost. The zero value is ready for use.
type Costs struct {
	once  sync.Once
	known *lru.Cache // of definitionKey to DefinitionCosts
}

type definitionKey struct {
	uid     types.UID
	version string
}

// knownDefinitions are as many as some dozens of large spaces have.
const knownDefinitions = 10_000

// Of returns what definitions cost, by their names.
func (c *Costs) Of(definitions []*apiextensionsv1.CustomResourceDefinition) map[string]DefinitionCosts {
	c.once.Do(func() { c.known = lru.New(knownDefinitions) })
	all := make(map[string]DefinitionCosts, len(definitions))
	for _, definition := range definitions {
		key := definitionKey{definition.UID, definition.ResourceVersion}
		costs, ok := c.known.Get(key)
		if !ok {
			costs = costsOf(&definition.Spec)
			c.known.Add(key, costs)
		}
		all[definition.Name] = costs.(DefinitionCosts)
	}
	return all
}

func costsOf(spec *apiextensionsv1.CustomResourceDefinitionSpec) DefinitionCosts {
	rules := rulesOf(spec)
	return DefinitionCosts{Rules: rules.count, Instructions: rules.instructions, Schemas: schemasOf(spec), Versions: len(spec.Versions), Bytes: spec.Size()}
}

// policyBounds are those of policies and webhooks.
var policyBounds = costBounds[PolicyCosts]{
	each: []costBound[PolicyCosts]{
		{func(c PolicyCosts) int { return c.Longest }, maxExpressionBytes, "one of its expressions has %d bytes, and in a space it may have at most %d; make several of it, or variables"},
		{func(c PolicyCosts) int { return c.Most }, maxNodes, "one of its expressions has %d nodes when macros are written out, and in a space it may have at most %d; make several of it, or variables"},
		{func(c PolicyCosts) int { return c.Nodes }, maxNodesInObject, "its expressions have %d nodes when macros are written out, and those of an object in a space at most %d; make several objects of it"},
		{func(c PolicyCosts) int { return c.Expressions }, maxExpressions, "it has %d expressions, and a policy in a space at most %d; make several policies of it"},
	},
	all: []costBound[PolicyCosts]{
		{func(c PolicyCosts) int { return c.Instructions }, maxInstructionsInSpace, "with it the patterns in expressions of the space's policies and webhooks have %d instructions when they are compiled, and at most %d may be there; " +
			"repeat less in them ({1,100} is compiled as a hundred parts, + is not)"},
		{func(c PolicyCosts) int { return c.Expressions }, maxExpressionsInSpace, "with it the policies and webhooks of the space have %d expressions, and at most %d may be there; use fewer"},
		{func(c PolicyCosts) int { return c.Webhooks }, maxWebhooksInSpace, "with it the space has %d webhooks, and at most %d may be there; delete configurations that nobody uses, or give one webhook the rules of several"},
		{func(c PolicyCosts) int { return c.Entries }, maxEntriesInSpace, "with it the policies, bindings and webhooks of the space have %d entries in their lists, such as names of resources, and at most %d may be there; name groups and * instead"},
	},
}

// checkPolicies refuses policies and webhooks with very many expressions, very many webhooks, and what compares
// requests with very much. One that had as much before can be changed.
func (p *Plugin) checkPolicies(ctx context.Context, a admission.Attributes, n tenant.Name) error {
	return p.policies.check(ctx, a, n, PolicyKey(a.GetResource().Resource, a.GetName()), PolicyCostsOf(a.GetObject()), PolicyCostsOf(a.GetOldObject()))
}

// PolicyCostsOf returns what a policy, a binding, or a configuration of webhooks, costs. Other objects cost nothing.
func PolicyCostsOf(obj runtime.Object) PolicyCosts {
	var rules reflect.Value
	webhooks := 0
	switch obj.(type) {
	case *admissionregistration.ValidatingWebhookConfiguration, *admissionregistrationv1.ValidatingWebhookConfiguration,
		*admissionregistration.MutatingWebhookConfiguration, *admissionregistrationv1.MutatingWebhookConfiguration:
		rules = reflect.ValueOf(obj).Elem().FieldByName("Webhooks")
		webhooks = rules.Len()
	case *admissionregistration.ValidatingAdmissionPolicy, *admissionregistrationv1.ValidatingAdmissionPolicy,
		*admissionregistration.MutatingAdmissionPolicy, *admissionregistrationv1.MutatingAdmissionPolicy,
		*admissionregistration.ValidatingAdmissionPolicyBinding, *admissionregistrationv1.ValidatingAdmissionPolicyBinding,
		*admissionregistration.MutatingAdmissionPolicyBinding, *admissionregistrationv1.MutatingAdmissionPolicyBinding:
		rules = reflect.ValueOf(obj).Elem().FieldByName("Spec")
	case *resource.ResourceClaim, *resource.ResourceClaimTemplate, *resource.DeviceClass: // their selectors are compiled when they are written, and not kept
		selectors := PolicyCosts{}
		expression.Each(obj, selectors.addExpression)
		selectors.Expressions = 0
		return selectors
	default:
		return PolicyCosts{}
	}
	costs := PolicyCosts{Webhooks: webhooks, Entries: matchEntries*(1+webhooks) + entriesOf(rules)}
	expression.Each(obj, costs.addExpression)
	return costs
}

func (c *PolicyCosts) addExpression(text string) {
	c.Expressions++
	if c.Longest = max(c.Longest, len(text)); len(text) > maxExpressionBytes {
		return // it is refused, or was there
	}
	size := expression.SizeOf(text)
	c.Most = max(c.Most, size.Nodes)
	c.Nodes += size.Nodes
	c.Instructions += size.Instructions
}

// entriesOf returns how many entries there are in the lists and maps of a value, but for bytes.
func entriesOf(v reflect.Value) (count int) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			count = entriesOf(v.Elem())
		}
	case reflect.Struct:
		for _, field := range v.Fields() {
			count += entriesOf(field)
		}
	case reflect.Map:
		count = v.Len()
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return 0
		}
		count = v.Len()
		for i := range v.Len() {
			count += entriesOf(v.Index(i))
		}
	}
	return count
}

// definitionBounds are those of definitions.
var definitionBounds = costBounds[DefinitionCosts]{
	each: []costBound[DefinitionCosts]{
		{func(c DefinitionCosts) int { return c.Schemas }, maxSchemas, "its versions have %d schemas of values, and a definition in a space at most %d; leave fields to the controller with x-kubernetes-preserve-unknown-fields, or make several definitions of it"},
	},
	all: []costBound[DefinitionCosts]{
		{func(c DefinitionCosts) int { return c.Schemas }, maxSchemasInSpace, "with it the definitions of the space have %d schemas of values, and at most %d may be there; leave out definitions that nobody uses"},
		{func(c DefinitionCosts) int { return c.Versions }, maxVersionsInSpace, "with it the definitions of the space have %d versions, and at most %d may be there; leave out versions and definitions that nobody uses"},
		{func(c DefinitionCosts) int { return c.Rules }, maxRulesInSpace, "with it the definitions of the space have %d rules (x-kubernetes-validations), and at most %d may be there; use fewer"},
		{func(c DefinitionCosts) int { return c.Instructions }, maxInstructionsInSpace, "with it the patterns in rules of the space's definitions have %d instructions when they are compiled, and at most %d may be there; " +
			"repeat less in them ({1,100} is compiled as a hundred parts, + is not)"},
		{func(c DefinitionCosts) int { return c.Bytes }, maxDefinitionBytes, "with it the definitions of the space have %d bytes, and at most %d may be there; leave out descriptions, or definitions that nobody uses"},
	},
}

// checkDefinitions refuses definitions with which all of a space cost very much.
func (p *Plugin) checkDefinitions(ctx context.Context, a admission.Attributes, n tenant.Name) error {
	definition, old := definitionsIn(a)
	if definition == nil || p.definitions.there == nil {
		return nil
	}
	before := DefinitionCosts{}
	if old != nil {
		before = costsOfInternal(old)
	}
	return p.definitions.check(ctx, a, n, definition.Name, costsOfInternal(definition), before)
}

func costsOfInternal(definition *apiextensions.CustomResourceDefinition) DefinitionCosts {
	spec, err := withSchemas(definition)
	if err != nil {
		return DefinitionCosts{} // as other checks say
	}
	return costsOf(spec)
}

// rulesOf returns the rules that a definition has in all of its versions.
func rulesOf(spec *apiextensionsv1.CustomResourceDefinitionSpec) ruleCount {
	all := ruleCount{most: math.MaxInt, anySize: true}
	for _, version := range spec.Versions {
		if version.Schema != nil && version.Schema.OpenAPIV3Schema != nil {
			_ = all.check(nil, version.Schema.OpenAPIV3Schema)
		}
	}
	return all
}

// schemasOf returns how many schemas of values a definition has in all of its versions.
func schemasOf(spec *apiextensionsv1.CustomResourceDefinitionSpec) (count int) {
	var add func(*field.Path, *apiextensionsv1.JSONSchemaProps) error
	add = func(path *field.Path, schema *apiextensionsv1.JSONSchemaProps) error {
		count++
		return eachSchema(path, schema, add)
	}
	for _, version := range spec.Versions {
		if version.Schema != nil && version.Schema.OpenAPIV3Schema != nil {
			_ = add(nil, version.Schema.OpenAPIV3Schema)
		}
	}
	return count
}

// ruleCount counts the rules of a schema, of which there may be so many, and of what size unless any is allowed, and
// the instructions of the patterns in them.
type ruleCount struct {
	count, nodes, instructions, most int
	anySize                          bool
}

// add adds an expression of a rule.
func (r *ruleCount) add(text string) error {
	if len(text) > maxExpressionBytes {
		if r.anySize {
			return nil
		}
		return fmt.Errorf("the expression has %d bytes, and in a space it may have at most %d; make several rules of it", len(text), maxExpressionBytes)
	}
	size := expression.SizeOf(text)
	r.nodes += size.Nodes
	r.instructions += size.Instructions
	switch {
	case r.anySize:
		return nil
	case size.Nodes > maxNodes:
		return fmt.Errorf("the expression has %d nodes when macros are written out, and in a space it may have at most %d; make several rules of it", size.Nodes, maxNodes)
	case r.nodes > maxNodesInObject:
		return fmt.Errorf("with those before it, the expressions have %d nodes when macros are written out, and those of a version in a space at most %d; use fewer rules", r.nodes, maxNodesInObject)
	default:
		return nil
	}
}

func (r *ruleCount) check(path *field.Path, props *apiextensionsv1.JSONSchemaProps) error {
	r.count += len(props.XValidations)
	for i, rule := range props.XValidations {
		if rule.MessageExpression != "" {
			r.count++
		}
		for _, text := range []string{rule.Rule, rule.MessageExpression} {
			if err := r.add(text); err != nil {
				return fmt.Errorf("%s: %w", path.Child("x-kubernetes-validations").Index(i), err)
			}
		}
	}
	if r.count > r.most {
		return fmt.Errorf("%s: with those before it, these are %d rules, and a space takes definitions with at most %d; use fewer",
			path.Child("x-kubernetes-validations"), r.count, r.most)
	}
	return eachSchema(path, props, r.check)
}
