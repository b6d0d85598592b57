package audit

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/util/validation/field"
	auditapi "k8s.io/apiserver/pkg/apis/audit"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/audit/policy"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/internal/tenant"
)

func userOf(n tenant.Name) user.Info {
	u := &user.DefaultInfo{Name: "jane"}
	if n != "" {
		u.Extra = map[string][]string{tenant.UserExtraKey: {string(n)}}
	}
	return u
}

// authenticated returns the user that a request has for upstream's filters.
func authenticated(t *testing.T, u user.Info, requested tenant.Scope, header http.Header) user.Info {
	t.Helper()
	shared := &authenticator.Response{User: u}
	request := httptest.NewRequest(http.MethodGet, "/", nil)
	request.Header = header
	request = request.WithContext(tenant.WithRequest(request.Context(), &tenant.Request{Requested: requested}))
	response, ok, err := WithSpace(authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) {
		return shared, true, nil
	})).AuthenticateRequest(request)
	if !ok || err != nil {
		t.Fatalf("%v, %v", ok, err)
	}
	if shared.User != u {
		t.Error("the answer that others may have is changed")
	}
	return response.User
}

func TestEvaluate(t *testing.T) {
	const (
		none, metadata, request, response = auditapi.LevelNone, auditapi.LevelMetadata, auditapi.LevelRequest, auditapi.LevelRequestResponse
	)
	levels := map[tenant.Name]auditapi.Level{"silent": none, "verbose": response, "normal": request}
	policies := func(n tenant.Name) audit.PolicyRuleEvaluator {
		if level, ok := levels[n]; ok {
			return policy.NewFakePolicyRuleEvaluator(level, nil)
		}
		return nil
	}
	for name, tc := range map[string]struct {
		user      user.Info
		requested tenant.Scope
		server    auditapi.Level
		want      auditapi.Level
		header    http.Header
	}{
		"own, short":                        {userOf("silent"), "", metadata, none, nil},
		"own, named":                        {userOf("silent"), "silent", metadata, none, nil},
		"own, more":                         {userOf("verbose"), "verbose", none, response, nil},
		"without a policy":                  {userOf("other"), "other", metadata, metadata, nil},
		"silent names another":              {userOf("silent"), "other", metadata, metadata, nil},
		"silent names a verbose one":        {userOf("silent"), "verbose", metadata, response, nil},
		"silent names what is not there":    {userOf("silent"), "unknown", metadata, metadata, nil},
		"silent names all":                  {userOf("silent"), tenant.All, metadata, metadata, nil},
		"silent names the system":           {userOf("silent"), tenant.System.Scope(), metadata, metadata, nil},
		"verbose names another":             {userOf("verbose"), "other", metadata, response, nil},
		"verbose names a silent one":        {userOf("verbose"), "silent", none, response, nil},
		"another names a silent one":        {userOf("other"), "silent", metadata, metadata, nil},
		"another names a less verbose one":  {userOf("other"), "normal", response, response, nil},
		"the system":                        {userOf(tenant.System), "", metadata, metadata, nil},
		"the system in its space":           {userOf(tenant.System), tenant.System.Scope(), metadata, metadata, nil},
		"the system in a silent space":      {userOf(tenant.System), "silent", metadata, metadata, nil},
		"the system in a verbose space":     {userOf(tenant.System), "verbose", metadata, response, nil},
		"the system everywhere":             {userOf(tenant.System), tenant.Everything, metadata, metadata, nil},
		"who has no tenant":                 {userOf(""), "", metadata, metadata, nil},
		"who has no tenant, in a silent":    {userOf(""), "silent", metadata, metadata, nil},
		"who has no tenant, in a verbose":   {userOf(""), "verbose", none, response, nil},
		"credentials that are refused":      {nil, "", metadata, metadata, nil},
		"a tenant that is no name":          {userOf("A_B"), "", metadata, metadata, nil},
		"a tenant that is no name, visitor": {userOf("A_B"), "silent", metadata, metadata, nil},
		"silent impersonates":               {userOf("silent"), "", metadata, metadata, http.Header{"Impersonate-User": {"joe"}}},
		"silent impersonates, named":        {userOf("silent"), "silent", metadata, metadata, http.Header{"Impersonate-User": {"joe"}}},
		"silent would be of another tenant": {userOf("silent"), "silent", metadata, metadata, http.Header{"Impersonate-Extra-Multi-Tenancy.k8s.io%2ftenant": {"b"}}},
		"verbose impersonates":              {userOf("verbose"), "", none, response, http.Header{"Impersonate-User": {"joe"}}},
		"other headers":                     {userOf("silent"), "", metadata, none, http.Header{"User-Agent": {"Impersonate-User"}}},
	} {
		t.Run(name, func(t *testing.T) {
			e := &Evaluator{Server: policy.NewFakePolicyRuleEvaluator(tc.server, nil), OfUser: policies, OfSpace: policies}
			attributes := authorizer.AttributesRecord{User: tc.user}
			if tc.user != nil {
				attributes.User = authenticated(t, tc.user, tc.requested, tc.header)
			}
			if got := e.EvaluatePolicyRule(attributes).Level; got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

func TestBoth(t *testing.T) {
	received, completed := auditapi.StageRequestReceived, auditapi.StageResponseComplete
	for name, tc := range map[string]struct{ a, b, want audit.RequestAuditConfig }{
		"nothing": {
			a: audit.RequestAuditConfig{Level: auditapi.LevelNone}, b: audit.RequestAuditConfig{Level: auditapi.LevelNone},
			want: audit.RequestAuditConfig{Level: auditapi.LevelNone},
		},
		"one": {
			a:    audit.RequestAuditConfig{Level: auditapi.LevelNone},
			b:    audit.RequestAuditConfig{Level: auditapi.LevelMetadata, OmitStages: []auditapi.Stage{received}, OmitManagedFields: true},
			want: audit.RequestAuditConfig{Level: auditapi.LevelMetadata, OmitStages: []auditapi.Stage{received}, OmitManagedFields: true},
		},
		"more detail hides no stage": {
			a:    audit.RequestAuditConfig{Level: auditapi.LevelMetadata, OmitStages: []auditapi.Stage{received}},
			b:    audit.RequestAuditConfig{Level: auditapi.LevelRequestResponse, OmitStages: []auditapi.Stage{completed, received}, OmitManagedFields: true},
			want: audit.RequestAuditConfig{Level: auditapi.LevelRequestResponse, OmitStages: []auditapi.Stage{received}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, both(tc.a, tc.b), cmpopts.EquateEmpty()); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(tc.want, both(tc.b, tc.a), cmpopts.EquateEmpty()); diff != "" {
				t.Error("the other way round:", diff)
			}
		})
	}
}

func TestWithSpaceLeavesRefusals(t *testing.T) {
	refused := errors.New("refused")
	request := httptest.NewRequest(http.MethodGet, "/", nil)
	request = request.WithContext(tenant.WithRequest(request.Context(), &tenant.Request{Requested: "a"}))
	response, ok, err := WithSpace(authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) {
		return nil, false, refused
	})).AuthenticateRequest(request)
	if response != nil || ok || !errors.Is(err, refused) {
		t.Errorf("%v, %v, %v", response, ok, err)
	}
}

func TestCompile(t *testing.T) {
	if Compile(nil) != nil {
		t.Error("no policy is one")
	}
	no := false
	given := &v1alpha1.AuditPolicy{
		OmitStages:        []auditv1.Stage{auditv1.StageRequestReceived},
		OmitManagedFields: true,
		Rules: []auditv1.PolicyRule{
			{Level: auditv1.LevelNone, Verbs: []string{"watch"}},
			{Level: auditv1.LevelMetadata, Resources: []auditv1.GroupResources{{Resources: []string{"secrets"}}}, OmitManagedFields: &no},
			{Level: auditv1.LevelRequestResponse, Users: []string{"jane"}},
		},
	}
	before := given.DeepCopy()
	compiled := Compile(given)
	if diff := cmp.Diff(before, given); diff != "" {
		t.Errorf("the object is changed: %s", diff)
	}
	stages := []auditapi.Stage{auditapi.StageRequestReceived}
	for name, tc := range map[string]struct {
		attributes authorizer.AttributesRecord
		want       audit.RequestAuditConfig
	}{
		"the first that matches": {
			authorizer.AttributesRecord{Verb: "watch", Resource: "secrets", ResourceRequest: true, User: userOf("a")},
			audit.RequestAuditConfig{Level: auditapi.LevelNone, OmitStages: stages, OmitManagedFields: true},
		},
		"the second": {
			authorizer.AttributesRecord{Verb: "get", Resource: "secrets", ResourceRequest: true, User: userOf("a")},
			audit.RequestAuditConfig{Level: auditapi.LevelMetadata, OmitStages: stages},
		},
		"by the name of the user": {
			authorizer.AttributesRecord{Verb: "get", Resource: "pods", ResourceRequest: true, User: visitor{Info: userOf("a"), in: "b"}},
			audit.RequestAuditConfig{Level: auditapi.LevelRequestResponse, OmitStages: stages, OmitManagedFields: true},
		},
		"none": {
			authorizer.AttributesRecord{Verb: "get", Resource: "pods", ResourceRequest: true, User: &user.DefaultInfo{Name: "joe"}},
			audit.RequestAuditConfig{Level: auditapi.LevelNone, OmitStages: stages, OmitManagedFields: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, compiled.EvaluatePolicyRule(tc.attributes)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestValidate(t *testing.T) {
	rule := func(r auditv1.PolicyRule) *v1alpha1.AuditPolicy {
		return &v1alpha1.AuditPolicy{Rules: []auditv1.PolicyRule{r}}
	}
	for name, tc := range map[string]struct {
		policy *v1alpha1.AuditPolicy
		want   []string // fields
	}{
		"none":       {policy: nil},
		"good":       {policy: rule(auditv1.PolicyRule{Level: auditv1.LevelMetadata})},
		"level":      {policy: rule(auditv1.PolicyRule{Level: "Everything"}), want: []string{"spec.auditPolicy.rules[0].level"}},
		"no level":   {policy: rule(auditv1.PolicyRule{}), want: []string{"spec.auditPolicy.rules[0].level"}},
		"group":      {policy: rule(auditv1.PolicyRule{Level: "None", Resources: []auditv1.GroupResources{{Group: "apps/v1"}}}), want: []string{"spec.auditPolicy.rules[0].resources.group"}},
		"URL":        {policy: rule(auditv1.PolicyRule{Level: "None", NonResourceURLs: []string{"healthz"}}), want: []string{"spec.auditPolicy.rules[0].nonResourceURLs[0]"}},
		"stage":      {policy: rule(auditv1.PolicyRule{Level: "None", OmitStages: []auditv1.Stage{"Late"}}), want: []string{"spec.auditPolicy.rules[0].omitStages[0]"}},
		"all stages": {policy: &v1alpha1.AuditPolicy{OmitStages: []auditv1.Stage{"Panic", "Late"}}, want: []string{"spec.auditPolicy.omitStages[1]"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, err := range Validate(tc.policy, field.NewPath("spec", "auditPolicy")) {
				got = append(got, err.Field)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
