package kubecontrollers

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	admissionapply "k8s.io/client-go/applyconfigurations/admissionregistration/v1"
	"k8s.io/client-go/kubernetes/fake"
	admissionlisters "k8s.io/client-go/listers/admissionregistration/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/tenantry/tenantry/internal/roundtrip"
	"github.com/tenantry/tenantry/internal/tenant"
)

// policyOf returns a policy with expressions of ten bytes about resources.
func policyOf(name string, variables, validations int, resources ...string) *admissionregistrationv1.ValidatingAdmissionPolicy {
	expression := strings.Repeat("1", 10)
	return &admissionregistrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name, Generation: 3},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			Variables:   slices.Repeat([]admissionregistrationv1.Variable{{Expression: expression}}, variables),
			Validations: slices.Repeat([]admissionregistrationv1.Validation{{Expression: expression, MessageExpression: expression}}, validations),
			MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
				RuleWithOperations: admissionregistrationv1.RuleWithOperations{Rule: admissionregistrationv1.Rule{
					APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: resources,
				}},
			}}},
		},
	}
}

func TestPolicyWork(t *testing.T) {
	many := slices.Repeat([]string{"r"}, 20)
	for name, tc := range map[string]struct {
		policy *admissionregistrationv1.ValidatingAdmissionPolicy
		want   int
	}{
		"one kind":              {policy: policyOf("p", 1, 1, "pods"), want: 1 + kindWork + 2*(environmentWork+variableWork+10+10)},
		"some kinds":            {policy: policyOf("p", 1, 1, "pods", "nodes"), want: 2 + 2*(kindWork+2*(environmentWork+variableWork+10+10))},
		"wildcards":             {policy: policyOf("p", 1, 1, "*", "pods/status")},
		"no variables":          {policy: policyOf("p", 0, 2, "pods"), want: 1 + kindWork + 4*(environmentWork+10)},
		"no expressions":        {policy: policyOf("p", 1, 0, "pods"), want: 1 + kindWork},
		"at most ten of a rule": {policy: policyOf("p", 0, 0, many...), want: 20 + 10*kindWork},
		"nothing to match":      {policy: &admissionregistrationv1.ValidatingAdmissionPolicy{}},
		"parameters": {policy: &admissionregistrationv1.ValidatingAdmissionPolicy{Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			ParamKind: &admissionregistrationv1.ParamKind{APIVersion: "example.com/v1", Kind: "Rules"},
		}}, want: kindWork},
	} {
		t.Run(name, func(t *testing.T) {
			if got := policyWork(tc.policy); got != tc.want {
				t.Errorf("got %d, want %d", got, tc.want)
			}
		})
	}
}

// TestPoliciesAreShort checks what the controller sees of policies whose check takes long.
func TestPoliciesAreShort(t *testing.T) {
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	combined := policyOf("a|combined", 0, 1, slices.Repeat([]string{"r"}, 1_000)...)
	rule := &combined.Spec.MatchConstraints.ResourceRules[0]
	rule.APIGroups, rule.APIVersions = rule.Resources, rule.Resources
	for _, policy := range []*admissionregistrationv1.ValidatingAdmissionPolicy{
		policyOf("a|short", 10, 10, "pods"), policyOf("a|long", 250, 250, "pods"), combined, policyOf("long", 250, 250, "pods"),
	} {
		if err := indexer.Add(policy); err != nil {
			t.Fatal(err)
		}
	}
	types := &spaceTypes{client: http.DefaultClient, config: &rest.Config{Host: "http://localhost"}, known: knownTypes, debts: newDebts(1)}
	lister := spacedPolicyLister{admissionlisters.NewValidatingAdmissionPolicyLister(indexer), types}
	checked := map[string]bool{}
	for _, name := range indexer.ListKeys() {
		policy, err := lister.Get(name)
		if err != nil {
			t.Fatal(err)
		}
		if policy.Name != name || policy.Generation != 3 {
			t.Errorf("policy %q is shown as %v", name, policy.ObjectMeta)
		}
		checked[name] = len(policy.Spec.Validations) > 0
	}
	if diff := cmp.Diff(map[string]bool{"a|short": true, "a|long": false, "a|combined": false, "long": true}, checked); diff != "" {
		t.Errorf("checked policies (-want +got):\n%s", diff)
	}
	if err := types.debts.take("a", time.Hour); err != nil {
		t.Fatal(err)
	}
	if _, err := lister.Get("a|short"); err == nil {
		t.Error("a policy is checked when it is not its tenant's turn")
	}
}

// TestUncheckedPolicy checks that a tenant does not pay for the time between its policy and another that is not
// checked.
func TestUncheckedPolicy(t *testing.T) {
	now := time.Unix(0, 0)
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	types := &spaceTypes{client: http.DefaultClient, config: &rest.Config{Host: "http://localhost"}, known: knownTypes, debts: newDebts(1)}
	types.debts.now = func() time.Time { return now }
	lister := spacedPolicyLister{admissionlisters.NewValidatingAdmissionPolicyLister(indexer), types}
	statuses := policyStatuses{fake.NewClientset().AdmissionregistrationV1().ValidatingAdmissionPolicies(), types}
	for _, policy := range []*admissionregistrationv1.ValidatingAdmissionPolicy{policyOf("a|short", 1, 1, "pods"), policyOf("b|long", 250, 250, "pods")} {
		if err := indexer.Add(policy); err != nil {
			t.Fatal(err)
		}
		now = now.Add(time.Hour)
		if _, err := lister.Get(policy.Name); err != nil {
			t.Fatal(err)
		}
		_, _ = statuses.ApplyStatus(t.Context(), admissionapply.ValidatingAdmissionPolicy("p"), metav1.ApplyOptions{FieldManager: "m"})
	}
	for _, n := range []tenant.Name{"a", "b"} {
		if owes := types.debts.debt(n); owes != 0 {
			t.Errorf("%s owes %v", n, owes)
		}
	}
}

// TestPolicyTime checks that what is asked of a space for a policy ends when the policy has had its time, and that its
// tenant pays until the policy has its status. What the platform's own policies need has no end, and nobody pays.
func TestPolicyTime(t *testing.T) {
	now := time.Unix(0, 0)
	types := &spaceTypes{client: http.DefaultClient, config: &rest.Config{Host: "http://localhost"}, known: knownTypes, debts: newDebts(1)}
	types.debts.now = func() time.Time { return now }
	transport := &policyTransport{types: types, next: roundtrip.Func(func(req *http.Request) (*http.Response, error) {
		if err := req.Context().Err(); err != nil {
			return nil, err
		}
		return &http.Response{Header: http.Header{"Retry-After": {"30"}}, Body: http.NoBody}, nil
	})}
	statuses := policyStatuses{fake.NewClientset().AdmissionregistrationV1().ValidatingAdmissionPolicies(), types}
	ask := func() error {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost", nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := transport.RoundTrip(req)
		if err != nil {
			return err
		}
		if after := response.Header.Get("Retry-After"); after != "" {
			t.Errorf("%s: a client waits for %s s", types.space, after)
		}
		return response.Body.Close()
	}
	for _, n := range []tenant.Name{"a", "b", tenant.System} {
		if err := types.of(n); err != nil {
			t.Fatal(err)
		}
		if err := ask(); err != nil {
			t.Errorf("%s: %v", n, err)
		}
		if ends, ok := types.lasts.Deadline(); !ok || time.Until(ends) > maxPolicyTime {
			t.Errorf("%s: it may take until %v", n, ends)
		}
		types.end() // as when its time is over
		if err := ask(); (err != nil) != n.IsSpace() {
			t.Errorf("%s: after its time: %v", n, err)
		}
		now = now.Add(maxDebt / 2) // the last document is decoded
		_, _ = statuses.ApplyStatus(t.Context(), admissionapply.ValidatingAdmissionPolicy("p"), metav1.ApplyOptions{FieldManager: "m"})
		if owes := types.debts.debt(n) > maxDebt; owes != n.IsSpace() {
			t.Errorf("%s owes %v", n, types.debts.debt(n))
		}
	}
}
