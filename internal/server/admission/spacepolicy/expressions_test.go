package spacepolicy

import (
	"context"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/kubernetes/pkg/apis/admissionregistration"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/apis/resource"

	"github.com/tenantry/tenantry/internal/server/expression"
	"github.com/tenantry/tenantry/internal/tenant"
)

// writeOf is the creation of x, or its update if there is an old one.
func writeOf(object, old runtime.Object) admission.Attributes {
	operation := admission.Create
	if old != nil {
		operation = admission.Update
	}
	version := admissionregistration.SchemeGroupVersion
	return admission.NewAttributesRecord(object, old, version.WithKind("Policy"), "", "x", version.WithResource("policies"), "", operation, nil, false, nil)
}

func TestCheckExpressions(t *testing.T) {
	validating := func(variables int) *admissionregistration.ValidatingAdmissionPolicy {
		return &admissionregistration.ValidatingAdmissionPolicy{Spec: admissionregistration.ValidatingAdmissionPolicySpec{
			Variables:   slices.Repeat([]admissionregistration.Variable{{Expression: "x"}}, variables),
			Validations: []admissionregistration.Validation{{Expression: "x", MessageExpression: "x"}}, AuditAnnotations: []admissionregistration.AuditAnnotation{{ValueExpression: "x"}},
			MatchConditions: []admissionregistration.MatchCondition{{Expression: "x"}},
		}}
	}
	mutating := func(variables int) *admissionregistration.MutatingAdmissionPolicy {
		return &admissionregistration.MutatingAdmissionPolicy{Spec: admissionregistration.MutatingAdmissionPolicySpec{
			Variables: slices.Repeat([]admissionregistration.Variable{{Expression: "x"}}, variables),
			Mutations: []admissionregistration.Mutation{{JSONPatch: &admissionregistration.JSONPatch{Expression: "x"}}}, MatchConditions: []admissionregistration.MatchCondition{{Expression: "x"}},
		}}
	}
	for name, tc := range map[string]struct {
		object, old runtime.Object
		refused     bool
	}{
		"most that validate":      {object: validating(maxExpressions - 4)},
		"too many that validate":  {object: validating(maxExpressions - 3), refused: true},
		"most that mutate":        {object: mutating(maxExpressions - 2)},
		"too many that mutate":    {object: mutating(maxExpressions - 1), refused: true},
		"as many as before":       {object: validating(maxExpressions), old: validating(maxExpressions)},
		"more than before":        {object: validating(maxExpressions + 1), old: validating(maxExpressions), refused: true},
		"another kind of objects": {object: &admissionregistration.ValidatingAdmissionPolicyBinding{}},
		"selectors, which are not kept": {object: &resource.DeviceClass{Spec: resource.DeviceClassSpec{
			Selectors: slices.Repeat([]resource.DeviceSelector{{CEL: &resource.CELDeviceSelector{Expression: "x"}}}, maxExpressions+1)}}},
	} {
		t.Run(name, func(t *testing.T) {
			plugin, err := New(nil, Rules{})
			if err != nil {
				t.Fatal(err)
			}
			err = plugin.Validate(tenant.WithSpace(t.Context(), "a"), writeOf(tc.object, tc.old), nil)
			if refused := err != nil && strings.Contains(err.Error(), "expressions, and a policy in a space at most"); refused != tc.refused || err != nil && !refused {
				t.Errorf("%v, want refused: %v", err, tc.refused)
			}
		})
	}
}

// TestLongExpressions checks that no expression is compiled that would take very much memory, wherever it is, but one
// that was there before.
func TestLongExpressions(t *testing.T) {
	of := func(bytes int) map[string]runtime.Object {
		expression := strings.Repeat("x", bytes)
		ruled := definition(props{Type: "object", Properties: map[string]props{"a": {Type: "string", XValidations: apiextensions.ValidationRules{{Rule: expression}}}}})
		said := definition(props{Type: "object", XValidations: apiextensions.ValidationRules{{Rule: "true", MessageExpression: expression}}})
		return map[string]runtime.Object{
			"a validation":  &admissionregistration.ValidatingAdmissionPolicy{Spec: admissionregistration.ValidatingAdmissionPolicySpec{Validations: []admissionregistration.Validation{{Expression: expression}}}},
			"a message":     &admissionregistration.ValidatingAdmissionPolicy{Spec: admissionregistration.ValidatingAdmissionPolicySpec{Validations: []admissionregistration.Validation{{MessageExpression: expression}}}},
			"an annotation": &admissionregistration.ValidatingAdmissionPolicy{Spec: admissionregistration.ValidatingAdmissionPolicySpec{AuditAnnotations: []admissionregistration.AuditAnnotation{{ValueExpression: expression}}}},
			"a mutation": &admissionregistration.MutatingAdmissionPolicy{Spec: admissionregistration.MutatingAdmissionPolicySpec{
				Mutations: []admissionregistration.Mutation{{JSONPatch: &admissionregistration.JSONPatch{Expression: expression}}}}},
			"a condition of a webhook": &admissionregistration.MutatingWebhookConfiguration{Webhooks: []admissionregistration.MutatingWebhook{{MatchConditions: []admissionregistration.MatchCondition{{Expression: expression}}}}},
			"a rule":                   ruled,
			"a message of a rule":      said,
		}
	}
	plugin, err := New(nil, Rules{})
	if err != nil {
		t.Fatal(err)
	}
	validate := func(object, old runtime.Object) error {
		return plugin.Validate(tenant.WithSpace(t.Context(), "a"), writeOf(object, old), nil)
	}
	long := of(maxExpressionBytes + 1)
	for name, object := range long {
		if err := validate(object, nil); err == nil || !strings.Contains(err.Error(), "has 10241 bytes, and in a space it may have at most 10240") {
			t.Errorf("%s: %v", name, err)
		}
		if err := validate(object, object); err != nil {
			t.Errorf("%s, as it was: %v", name, err)
		}
	}
	for name, object := range of(maxExpressionBytes) {
		if err := validate(object, nil); err != nil {
			t.Errorf("%s of as many bytes as may be: %v", name, err)
		}
	}
}

// TestNodesOfExpressions checks that no expression is compiled of very many nodes, nor an object with very many in all,
// but those that were there before.
func TestNodesOfExpressions(t *testing.T) {
	if err := expression.Bound(); err != nil {
		t.Fatal(err)
	}
	const text = "[[],[],[],[]]"
	each := expression.SizeOf(text).Nodes
	of := func(times, expressions int) map[string]runtime.Object {
		nodes := "[" + strings.Join(slices.Repeat([]string{text}, times), ",") + "] == []"
		return map[string]runtime.Object{
			"a policy": &admissionregistration.ValidatingAdmissionPolicy{Spec: admissionregistration.ValidatingAdmissionPolicySpec{
				Validations: slices.Repeat([]admissionregistration.Validation{{Expression: nodes}}, expressions)}},
			"a definition": definition(props{Type: "object", XValidations: slices.Repeat(apiextensions.ValidationRules{{Rule: nodes}}, expressions)}),
			"a claim": &resource.ResourceClaim{Spec: resource.ResourceClaimSpec{Devices: resource.DeviceClaim{Requests: []resource.DeviceRequest{{
				Exactly: &resource.ExactDeviceRequest{Selectors: slices.Repeat([]resource.DeviceSelector{{CEL: &resource.CELDeviceSelector{Expression: nodes}}}, expressions)}}}}}},
		}
	}
	plugin, err := New(nil, Rules{})
	if err != nil {
		t.Fatal(err)
	}
	validate := func(object, old runtime.Object) error {
		return plugin.Validate(tenant.WithSpace(t.Context(), "a"), writeOf(object, old), nil)
	}
	most := maxNodes/each - 1
	for what, objects := range map[string]map[string]runtime.Object{
		"2000": of(maxNodes/each+1, 1), "50000": of(most, maxNodesInObject/(most*each)+1),
	} {
		for name, object := range objects {
			if err := validate(object, nil); err == nil || !strings.Contains(err.Error(), "at most "+what) {
				t.Errorf("%s: %v", name, err)
			}
			if err := validate(object, object); err != nil {
				t.Errorf("%s, as it was: %v", name, err)
			}
		}
	}
	for name, object := range of(most, 20) {
		if err := validate(object, nil); err != nil {
			t.Errorf("%s of as many as may be: %v", name, err)
		}
	}
}

// TestPatternsInExpressions checks that the patterns of all expressions in a space are bounded: upstream keeps them
// compiled.
func TestPatternsInExpressions(t *testing.T) {
	if err := expression.Bound(); err != nil {
		t.Fatal(err)
	}
	const pattern = `"".matches("a{990}a{990}")`
	searches := func(patterns int) string { return strings.Join(slices.Repeat([]string{pattern}, patterns), "||") }
	each := expression.SizeOf(pattern).Instructions
	policy := func(validations int) *admissionregistration.ValidatingAdmissionPolicy {
		return &admissionregistration.ValidatingAdmissionPolicy{Spec: admissionregistration.ValidatingAdmissionPolicySpec{
			Validations: slices.Repeat([]admissionregistration.Validation{{Expression: searches(10)}}, validations)}}
	}
	ruled := func(rules int) *apiextensions.CustomResourceDefinition {
		return definition(props{Type: "object", XValidations: slices.Repeat(apiextensions.ValidationRules{{Rule: searches(10)}}, rules)})
	}
	const most = maxInstructionsInSpace
	theirs := most - 10*each
	plugin, err := New(nil, Rules{Expressions: Expressions{
		Policies: func(tenant.Name) map[string]PolicyCosts {
			return map[string]PolicyCosts{"other": {Instructions: theirs}}
		},
		Definitions: func(tenant.Name) map[string]DefinitionCosts {
			return map[string]DefinitionCosts{"other": {Instructions: theirs}}
		},
	}})
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		a       admission.Attributes
		refused bool
	}{
		"as many in policies as may be":    {writeOf(policy(1), nil), false},
		"more in policies":                 {writeOf(policy(2), nil), true},
		"as many in policies as before":    {writeOf(policy(2), policy(2)), false},
		"as many in definitions as may be": {definitionAttributes(ruled(1), nil, ""), false},
		"more in definitions":              {definitionAttributes(ruled(2), nil, ""), true},
		"as many in definitions as before": {definitionAttributes(ruled(2), ruled(2), ""), false},
	} {
		err := plugin.Validate(tenant.WithSpace(t.Context(), "a"), tc.a, nil)
		if refused := err != nil && strings.Contains(err.Error(), "at most 200000 may be there"); refused != tc.refused || err != nil && !refused {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestExpressionsInSpace checks the number of expressions of all policies, and of rules of all
// definitions, in a space. Those of the object itself are not counted twice.
func TestExpressionsInSpace(t *testing.T) {
	webhooks := func(conditions int) *admissionregistration.ValidatingWebhookConfiguration {
		return &admissionregistration.ValidatingWebhookConfiguration{Webhooks: []admissionregistration.ValidatingWebhook{{MatchConditions: slices.Repeat([]admissionregistration.MatchCondition{{Expression: "x"}}, conditions)}}}
	}
	binding := func(resources int) *admissionregistration.ValidatingAdmissionPolicyBinding {
		return &admissionregistration.ValidatingAdmissionPolicyBinding{Spec: admissionregistration.ValidatingAdmissionPolicyBindingSpec{MatchResources: &admissionregistration.MatchResources{
			ResourceRules: []admissionregistration.NamedRuleWithOperations{{RuleWithOperations: admissionregistration.RuleWithOperations{
				Rule: admissionregistration.Rule{Resources: make([]string, resources)}}}}}}}
	}
	ruled := func(rules int) *apiextensions.CustomResourceDefinition {
		d := definition(props{Type: "object", XValidations: make(apiextensions.ValidationRules, rules)})
		d.Name = "x"
		return d
	}
	described := func(bytes int) *apiextensions.CustomResourceDefinition {
		d := definition(props{Type: "object", Description: strings.Repeat("x", bytes)})
		d.Name = "x"
		return d
	}
	fields := func(count int) *apiextensions.CustomResourceDefinition {
		properties := map[string]props{}
		for i := range count {
			properties[strconv.Itoa(i)] = props{Type: "string"}
		}
		d := definition(props{Type: "object", Properties: properties})
		d.Name = "x"
		return d
	}
	for name, tc := range map[string]struct {
		object, old   runtime.Object
		others, rules int
		webhooks      int
		entries       int
		bytes         int
		schemas       int
		versions      int
		message       string
	}{
		"as many as may be":           {object: webhooks(10), others: maxExpressionsInSpace - 10},
		"more":                        {object: webhooks(11), others: maxExpressionsInSpace - 10, message: "with it the policies and webhooks of the space have 2001 expressions"},
		"fewer than before":           {object: webhooks(10), old: webhooks(11), others: maxExpressionsInSpace},
		"as many webhooks as may be":  {object: webhooks(0), webhooks: maxWebhooksInSpace - 1},
		"more webhooks":               {object: webhooks(0), webhooks: maxWebhooksInSpace, message: "with it the space has 201 webhooks, and at most 200 may be there"},
		"as many webhooks as before":  {object: webhooks(0), old: webhooks(0), webhooks: maxWebhooksInSpace + 1},
		"as many entries as may be":   {object: binding(10), entries: maxEntriesInSpace - 16},
		"more entries":                {object: binding(11), entries: maxEntriesInSpace - 16, message: "with it the policies, bindings and webhooks of the space have 20001 entries"},
		"more of webhooks":            {object: webhooks(0), entries: maxEntriesInSpace - 10, message: "have 20001 entries"},
		"as many entries as before":   {object: binding(10), old: binding(10), entries: maxEntriesInSpace},
		"as many rules as may be":     {object: ruled(10), rules: maxRulesInSpace - 10},
		"more rules":                  {object: ruled(11), rules: maxRulesInSpace - 10, message: "with it the definitions of the space have 5001 rules"},
		"more rules than before":      {object: ruled(11), old: ruled(10), rules: maxRulesInSpace, message: "at most 5000 may be there"},
		"as many rules as before":     {object: ruled(10), old: ruled(10), rules: maxRulesInSpace},
		"more bytes":                  {object: described(1000), bytes: maxDefinitionBytes - 1000, message: "with it the definitions of the space have 671"},
		"more bytes than before":      {object: described(1000), old: described(999), bytes: maxDefinitionBytes, message: "at most 67108864 may be there"},
		"as many bytes as before":     {object: described(1000), old: described(1000), bytes: maxDefinitionBytes + 1},
		"many fields":                 {object: fields(maxSchemas - 1)},
		"too many fields":             {object: fields(maxSchemas), message: "its versions have 25001 schemas of values, and a definition in a space at most 25000"},
		"too many fields before":      {object: fields(maxSchemas), old: fields(maxSchemas)},
		"fields of many":              {object: fields(10), schemas: maxSchemasInSpace - 10, message: "with it the definitions of the space have 100001 schemas of values"},
		"as many fields of many":      {object: fields(10), old: fields(10), schemas: maxSchemasInSpace},
		"as many versions as may be":  {object: described(1000), versions: maxVersionsInSpace - 1},
		"more versions":               {object: described(1000), versions: maxVersionsInSpace, message: "with it the definitions of the space have 601 versions, and at most 600 may be there"},
		"as many versions as before":  {object: described(1000), old: described(999), versions: maxVersionsInSpace},
		"few bytes":                   {object: described(1000), bytes: maxDefinitionBytes / 2},
		"something without any there": {object: &core.ConfigMap{}, others: maxExpressionsInSpace + 1, rules: maxRulesInSpace + 1, entries: maxEntriesInSpace + 1},
	} {
		t.Run(name, func(t *testing.T) {
			others := Expressions{
				Policies: func(n tenant.Name) map[string]PolicyCosts {
					if n != "a" {
						t.Errorf("asked for %q", n)
					}
					return map[string]PolicyCosts{PolicyKey("policies", "other"): {Expressions: tc.others, Webhooks: tc.webhooks, Entries: tc.entries}, PolicyKey("policies", "x"): {1 << 30, 1 << 30, 1 << 30, 1 << 30, 1 << 30, 1 << 30, 1 << 30}}
				},
				Definitions: func(n tenant.Name) map[string]DefinitionCosts {
					if n != "a" {
						t.Errorf("asked for %q", n)
					}
					return map[string]DefinitionCosts{"other": {Rules: tc.rules, Schemas: tc.schemas, Versions: tc.versions, Bytes: tc.bytes}, "x": {1 << 30, 1 << 30, 1 << 30, 1 << 30, 1 << 30}}
				},
			}
			plugin, err := New(nil, Rules{Expressions: others})
			if err != nil {
				t.Fatal(err)
			}
			err = plugin.Validate(tenant.WithSpace(t.Context(), "a"), writeOf(tc.object, tc.old), nil)
			if (err != nil) != (tc.message != "") || err != nil && !strings.Contains(err.Error(), tc.message) {
				t.Errorf("got %v, want %q", err, tc.message)
			}
		})
	}
}

// TestEveryCostIsBounded checks that nothing is counted that has no bound.
func TestEveryCostIsBounded(t *testing.T) {
	checkBounded(t, policyBounds)
	checkBounded(t, definitionBounds)
}

func checkBounded[C any](t *testing.T, bounds costBounds[C]) {
	for i := range reflect.TypeFor[C]().NumField() {
		var costs, none C
		reflect.ValueOf(&costs).Elem().Field(i).SetInt(math.MaxInt32)
		all := costly[C]{bounds: bounds, there: func(tenant.Name) map[string]C { return map[string]C{"x": costs, "other": costs} }}
		name := reflect.TypeFor[C]().Field(i).Name
		if err := all.check(t.Context(), writeOf(nil, nil), "a", "x", costs, none); err == nil {
			t.Errorf("%s of %T may be any number", name, costs)
		}
		if err := all.check(t.Context(), writeOf(nil, nil), "a", "x", costs, costs); err != nil {
			t.Errorf("%s of %T, as much as before: %v", name, costs, err)
		}
	}
}

// TestRules checks the number of rules in a whole schema.
func TestRules(t *testing.T) {
	of := func(count int) props {
		return props{Type: "string", XValidations: make(apiextensions.ValidationRules, count)}
	}
	for more, refused := range map[int]bool{0: false, 1: true} {
		spec, err := withSchemas(definition(props{Type: "object", Properties: map[string]props{"a": of(maxRules / 2), "b": of(maxRules/2 + more)}}))
		if err != nil {
			t.Fatal(err)
		}
		err = checkSpec(spec, true, nil, (&seenPatterns{}).in(life{name: "a"}))
		if got := err != nil && strings.Contains(err.Error(), "rules, and a space takes definitions with at most"); got != refused {
			t.Errorf("%d more: %v", more, err)
		}
	}
}

// TestCosts checks that definitions are known by their versions.
func TestCosts(t *testing.T) {
	definition := func(name, version string, bytes int) *apiextensionsv1.CustomResourceDefinition {
		return &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), ResourceVersion: version},
			Spec: apiextensionsv1.CustomResourceDefinitionSpec{Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Description: strings.Repeat("x", bytes), XValidations: make(apiextensionsv1.ValidationRules, 1)}}}}}}
	}
	var costs Costs
	before := costs.Of([]*apiextensionsv1.CustomResourceDefinition{definition("a", "1", 1000), definition("b", "1", 1000)})
	if a := before["a"]; len(before) != 2 || a.Rules != 1 || a.Schemas != 1 || a.Bytes < 1000 || a.Bytes > 1500 {
		t.Errorf("got %v", before)
	}
	after := costs.Of([]*apiextensionsv1.CustomResourceDefinition{definition("a", "2", 2000), definition("b", "1", 1000)})
	if more := after["a"].Bytes - before["a"].Bytes; after["b"] != before["b"] || more < 1000 || more > 1100 {
		t.Errorf("got %v, and before %v", after, before)
	}
}

// dry is a write without effect.
type dry struct{ admission.Attributes }

// IsDryRun implements admission.Attributes.
func (dry) IsDryRun() bool { return true }

// TestPendingWebhooks checks that those of configurations that were admitted at once count together.
func TestPendingWebhooks(t *testing.T) {
	plugin, err := New(nil, Rules{Expressions: Expressions{Policies: func(tenant.Name) map[string]PolicyCosts { return map[string]PolicyCosts{} }}})
	if err != nil {
		t.Fatal(err)
	}
	create := func(name string) error {
		configuration := &admissionregistration.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name}, Webhooks: make([]admissionregistration.MutatingWebhook, maxWebhooksInSpace/2)}
		return plugin.checkPolicies(t.Context(), admission.NewAttributesRecord(configuration, nil, admissionregistration.Kind("MutatingWebhookConfiguration").WithVersion("v1"), "", name,
			admissionregistration.Resource("mutatingwebhookconfigurations").WithVersion("v1"), "", admission.Create, nil, false, nil), "a")
	}
	for _, name := range []string{"", "", "", "first", "second"} { // what has no name yet comes again with one
		if err := create(name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := create("third"); err == nil || !strings.Contains(err.Error(), "with it the space has 300 webhooks") {
		t.Errorf("got %v", err)
	}
}

// TestPendingDefinitions checks that definitions count from their admission on, while webhooks hold them and until they
// are known, and that an earlier one of the same name counts no more.
func TestPendingDefinitions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		written := map[string]DefinitionCosts{}
		plugin, err := New(nil, Rules{Expressions: Expressions{Definitions: func(tenant.Name) map[string]DefinitionCosts { return maps.Clone(written) }}})
		if err != nil {
			t.Fatal(err)
		}
		object := func(name string, fields int) *apiextensions.CustomResourceDefinition {
			properties := map[string]props{}
			for i := range fields {
				properties[fmt.Sprint(i)] = props{Type: "string"}
			}
			object := definition(props{Type: "object", Properties: properties})
			object.Name = name
			return object
		}
		check := func(ctx context.Context, space tenant.Name, object *apiextensions.CustomResourceDefinition, dryRun bool) error {
			a := writeOf(object, nil)
			if dryRun {
				a = dry{a}
			}
			return plugin.checkDefinitions(ctx, a, space)
		}
		create := func(space tenant.Name, name string) (context.CancelFunc, error) {
			ctx, cancel := context.WithCancel(tenant.WithSpace(t.Context(), space))
			for range 2 { // as often as the plugin is called for a request
				if err = check(ctx, space, object(name, maxSchemas-1), false); err != nil {
					break
				}
			}
			return cancel, err
		}
		var requests []context.CancelFunc
		for i := range maxSchemasInSpace / maxSchemas {
			cancel, err := create("a", fmt.Sprint(i))
			if err != nil {
				t.Fatalf("definition %d: %v", i, err)
			}
			requests = append(requests, cancel)
		}
		refused := func(space tenant.Name, name string, want bool) {
			t.Helper()
			cancel, err := create(space, name)
			if (err != nil) != want {
				t.Errorf("%s of %q: got %v", name, space, err)
			}
			cancel()
		}
		refused("a", "one more", true)
		refused("b", "one more", false)
		refused("a", "0", false) // again
		written["1"] = DefinitionCosts{Schemas: maxSchemas}
		refused("a", "0", false) // what is known of does not count twice
		for _, cancel := range requests {
			cancel()
		}
		time.Sleep(pendingTime - 1)
		synctest.Wait()
		refused("a", "one more", true)
		time.Sleep(pendingTime + 1)
		synctest.Wait()
		refused("a", "one more", false)
		time.Sleep(pendingTime + 1)
		synctest.Wait()
		written["all"] = DefinitionCosts{Schemas: maxSchemasInSpace}
		ctx, cancel := context.WithCancel(t.Context())
		if err := check(ctx, "a", object("all", 1), false); err != nil { // which may have no effect
			t.Error(err)
		}
		cancel()
		refused("a", "one more", true)
		delete(written, "all")
		delete(written, "1")
		time.Sleep(pendingTime + 1)
		synctest.Wait()
		for i := range maxSchemasInSpace / maxSchemas {
			if err := check(t.Context(), "c", object(fmt.Sprint(i), maxSchemas-1), true); err != nil {
				t.Error(err)
			}
		}
		refused("c", "after dry runs", false)
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(plugin.definitions.pending) > 0 {
			t.Errorf("%v are still pending", plugin.definitions.pending)
		}
	})
}
