package tenant

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/validation/field"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	_ "k8s.io/kubernetes/pkg/apis/apps/install" // the built-in groups that tests name
	"k8s.io/kubernetes/pkg/apis/core"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	"k8s.io/kubernetes/pkg/apis/core/validation"
	_ "k8s.io/kubernetes/pkg/apis/networking/install"

	"github.com/tenantry/tenantry/api/v1alpha1"
	"github.com/tenantry/tenantry/config/crd"
	"github.com/tenantry/tenantry/internal/server/definition"
)

func newTenant(name string, change ...func(*v1alpha1.Tenant)) *v1alpha1.Tenant {
	t := &v1alpha1.Tenant{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, f := range change {
		f(t)
	}
	return t
}

func auditPolicy(level auditv1.Level) *v1alpha1.AuditPolicy {
	return &v1alpha1.AuditPolicy{Rules: []auditv1.PolicyRule{{Level: level}}}
}

func newStrategy(t *testing.T) strategy {
	t.Helper()
	rules, err := definition.NewRules(crd.Tenants)
	if err != nil {
		t.Fatal(err)
	}
	return strategy{Strategy: definition.Strategy[v1alpha1.Tenant, v1alpha1.TenantStatus]{Rules: rules, Parts: parts}, earlier: func(_ context.Context, name string) bool { return name == "again" }}
}

// TestHostLimits checks whom the limits of a host hold for.
func TestHostLimits(t *testing.T) {
	s := newStrategy(t)
	wanted := newTenant("a", func(t *v1alpha1.Tenant) {
		t.Spec.NodePlacement = &v1alpha1.NodePlacement{Mode: v1alpha1.NodePlacementEnabled}
	})
	as := func(name string) context.Context {
		return genericapirequest.WithUser(context.Background(), &user.DefaultInfo{Name: name, Groups: []string{user.SystemPrivilegedGroup}})
	}
	for name, tc := range map[string]struct {
		limits  *v1alpha1.TenantLimits
		as      context.Context
		old     *v1alpha1.Tenant
		refused bool
	}{
		"the host":                       {&v1alpha1.TenantLimits{}, as(v1alpha1.HostOperator), nil, true},
		"the host, what it had":          {&v1alpha1.TenantLimits{}, as(v1alpha1.HostOperator), wanted, false},
		"the host, something new":        {&v1alpha1.TenantLimits{}, as(v1alpha1.HostOperator), newTenant("a"), true},
		"an administrator":               {&v1alpha1.TenantLimits{}, as("admin"), nil, false},
		"the host, where nothing limits": {nil, as(v1alpha1.HostOperator), nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			s.hostLimits = tc.limits
			errs := s.Validate(tc.as, wanted)
			if tc.old != nil {
				errs = s.ValidateUpdate(tc.as, wanted, tc.old)
			}
			if refused := len(errs) == 1 && errs[0].Field == "spec.nodePlacement"; refused != tc.refused || len(errs) > 0 && !refused {
				t.Errorf("got %v, want refused: %v", errs, tc.refused)
			}
		})
	}
}

func TestValidate(t *testing.T) {
	s := newStrategy(t)
	for name, tc := range map[string]struct {
		tenant *v1alpha1.Tenant
		want   string // part of the error, empty for none
	}{
		"letters, digits, hyphens":   {tenant: newTenant("sample-tenant-1")},
		"digits":                     {tenant: newTenant("1")},
		"63 characters":              {tenant: newTenant(strings.Repeat("a", 63))},
		"built in":                   {tenant: newTenant("system")},
		"reserved":                   {tenant: newTenant("all"), want: "reserved"},
		"64 characters":              {tenant: newTenant(strings.Repeat("a", 64)), want: "DNS-1123"},
		"dot":                        {tenant: newTenant("a.b"), want: "DNS-1123"},
		"upper case":                 {tenant: newTenant("A"), want: "DNS-1123"},
		"leading dash":               {tenant: newTenant("-a"), want: "DNS-1123"},
		"line end":                   {tenant: newTenant("a\n"), want: "DNS-1123"},
		"flattening":                 {tenant: newTenant("a|b"), want: "DNS-1123"},
		"suspended":                  {tenant: newTenant("a", func(t *v1alpha1.Tenant) { t.Spec.Suspended, t.Spec.SuspendedReason = true, "unpaid" })},
		"reason alone":               {tenant: newTenant("a", func(t *v1alpha1.Tenant) { t.Spec.SuspendedReason = "unpaid" }), want: "suspendedReason needs"},
		"system suspended":           {tenant: newTenant("system", func(t *v1alpha1.Tenant) { t.Spec.Suspended = true }), want: "built-in"},
		"admin":                      {tenant: newTenant("a", func(t *v1alpha1.Tenant) { t.Spec.Admins = []v1alpha1.Subject{{Kind: "Group", Name: "g"}} })},
		"admin of no kind":           {tenant: newTenant("a", func(t *v1alpha1.Tenant) { t.Spec.Admins = []v1alpha1.Subject{{Name: "g"}} }), want: "kind"},
		"admin of no name":           {tenant: newTenant("a", func(t *v1alpha1.Tenant) { t.Spec.Admins = []v1alpha1.Subject{{Kind: "User"}} }), want: "name"},
		"service account":            {tenant: newTenant("a", func(t *v1alpha1.Tenant) { t.Spec.Admins = []v1alpha1.Subject{{Kind: "ServiceAccount", Name: "x"}} }), want: "kind"},
		"too many admins":            {tenant: newTenant("a", func(t *v1alpha1.Tenant) { t.Spec.Admins = make([]v1alpha1.Subject, 65) }), want: "admins"},
		"quota":                      {tenant: newTenant("a", func(t *v1alpha1.Tenant) { t.Spec.Quota = corev1.ResourceList{"pods": resource.MustParse("5")} })},
		"audit policy":               {tenant: newTenant("a", func(t *v1alpha1.Tenant) { t.Spec.AuditPolicy = auditPolicy(auditv1.LevelMetadata) })},
		"audit policy of no rules":   {tenant: newTenant("a", func(t *v1alpha1.Tenant) { t.Spec.AuditPolicy = &v1alpha1.AuditPolicy{} }), want: "spec.auditPolicy.rules"},
		"audit policy of no level":   {tenant: newTenant("a", func(t *v1alpha1.Tenant) { t.Spec.AuditPolicy = auditPolicy("All") }), want: "spec.auditPolicy.rules[0].level"},
		"audit policy of the system": {tenant: newTenant("system", func(t *v1alpha1.Tenant) { t.Spec.AuditPolicy = auditPolicy(auditv1.LevelNone) }), want: "--audit-policy-file"},
		"of a host": {tenant: newTenant("a", func(t *v1alpha1.Tenant) {
			t.Spec.ControlPlaneRef = &v1alpha1.ControlPlaneReference{Namespace: "tenantry-system", Name: "sample"}
			t.Spec.KubeconfigSecret = &v1alpha1.KubeconfigSecret{User: "alice", Validity: metav1.Duration{Duration: 720 * time.Hour}}
		})},
		"of no ControlPlane": {tenant: newTenant("a", func(t *v1alpha1.Tenant) { t.Spec.ControlPlaneRef = &v1alpha1.ControlPlaneReference{Namespace: "a"} }), want: "spec.controlPlaneRef.name"},
		"a kubeconfig of Kubernetes' own": {tenant: newTenant("a", func(t *v1alpha1.Tenant) {
			t.Spec.KubeconfigSecret = &v1alpha1.KubeconfigSecret{User: "system:admin", Validity: metav1.Duration{Duration: time.Hour}}
		}), want: "spec.kubeconfigSecret.user"},
		"small bodies": {tenant: newTenant("a", func(t *v1alpha1.Tenant) {
			t.Spec.RequestLimit = &v1alpha1.RequestLimit{BodyBytes: new(int64(1 << 10))}
		})},
		"no bodies": {tenant: newTenant("a", func(t *v1alpha1.Tenant) { t.Spec.RequestLimit = &v1alpha1.RequestLimit{BodyBytes: new(int64(0))} }), want: "spec.requestLimit.bodyBytes"},
		"bodies beyond the server's": {tenant: newTenant("a", func(t *v1alpha1.Tenant) {
			t.Spec.RequestLimit = &v1alpha1.RequestLimit{BodyBytes: new(int64(3<<20 + 1))}
		}), want: "spec.requestLimit.bodyBytes"},
		"negative lists":                 {tenant: newTenant("a", func(t *v1alpha1.Tenant) { t.Spec.RequestLimit = &v1alpha1.RequestLimit{ListObjects: new(int32(-1))} }), want: "spec.requestLimit.listObjects"},
		"adoption by name":               {tenant: newTenant("a", adopts("acme")), want: "must be KEYSTONE/DOMAIN-ID"},
		"adoption of a name with spaces": {tenant: newTenant("a", adopts("default/my domain")), want: "must be KEYSTONE/DOMAIN-ID"},
		"adoption of nothing":            {tenant: newTenant("a", adopts("")), want: "must be KEYSTONE/DOMAIN-ID"},
		"a host's, by its name":          {tenant: newTenant("a", hosted("acme")), want: "must be the UID of the Tenant on the host"},
		"a host's, by a longer UID":      {tenant: newTenant("a", hosted("0b6e1b0e-6a36-4d05-9c55-5d8e7b1f2a3c-1")), want: "must be the UID of the Tenant on the host"},
		"a host's":                       {tenant: newTenant("a", hosted("0b6e1b0e-6a36-4d05-9c55-5d8e7b1f2a3c"))},
		"adoption":                       {tenant: newTenant("a", adopts("default/0123456789abcdef0123456789abcdef"))},
		"no name":                        {tenant: newTenant(""), want: "metadata.name: Required value: a tenant needs a name"},
		"suspension too long": {tenant: newTenant("a", func(t *v1alpha1.Tenant) {
			t.Spec.Suspended, t.Spec.SuspendedReason = true, strings.Repeat("x", 257)
		}), want: "suspendedReason"},
	} {
		t.Run(name, func(t *testing.T) {
			err := s.Validate(context.Background(), tc.tenant).ToAggregate()
			switch {
			case tc.want == "" && err != nil:
				t.Errorf("unexpected error: %v", err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("got error %v, want one with %q", err, tc.want)
			}
		})
	}
}

func adopts(domain string) func(*v1alpha1.Tenant) {
	return func(t *v1alpha1.Tenant) {
		t.Annotations = map[string]string{v1alpha1.AdoptKeystoneDomainAnnotation: domain}
	}
}

func hosted(uid string) func(*v1alpha1.Tenant) {
	return func(t *v1alpha1.Tenant) { t.Annotations = map[string]string{v1alpha1.HostTenantAnnotation: uid} }
}

// TestOldAdoptions checks that what was accepted before can be changed otherwise.
func TestOldAdoptions(t *testing.T) {
	old := newTenant("a", adopts("acme"))
	if errs := validateAnnotations(newTenant("a", adopts("acme"), quotaOf("pods", "1")), old); len(errs) > 0 {
		t.Error(errs)
	}
	if errs := validateAnnotations(newTenant("a", adopts("acme2")), old); len(errs) == 0 {
		t.Error("another wrong one is accepted")
	}
}

func quotaOf(limits ...string) func(*v1alpha1.Tenant) {
	return func(t *v1alpha1.Tenant) {
		t.Spec.Quota = corev1.ResourceList{}
		for i := 0; i < len(limits); i += 2 {
			t.Spec.Quota[corev1.ResourceName(limits[i])] = resource.MustParse(limits[i+1])
		}
	}
}

func admins(kind v1alpha1.SubjectKind, name string) func(*v1alpha1.Tenant) {
	return func(t *v1alpha1.Tenant) { t.Spec.Admins = []v1alpha1.Subject{{Kind: kind, Name: name}} }
}

// login asks for a kubeconfig.
func login(user string, groups ...string) func(*v1alpha1.Tenant) {
	return func(t *v1alpha1.Tenant) {
		t.Spec.KubeconfigSecret = &v1alpha1.KubeconfigSecret{User: user, Groups: groups, Validity: metav1.Duration{Duration: time.Hour}}
	}
}

func placement(mode v1alpha1.NodePlacementMode, labels, taints []string) func(*v1alpha1.Tenant) {
	return func(t *v1alpha1.Tenant) {
		t.Spec.NodePlacement = &v1alpha1.NodePlacement{Mode: mode, AllowedLabels: labels, AllowedTaints: taints}
	}
}

// TestValidateFields says of each field what is refused, and that the answer names it.
func TestValidateFields(t *testing.T) {
	s := newStrategy(t)
	long := "widgets." + strings.Repeat("long.", 11) + "example.com"
	for name, tc := range map[string]struct {
		change func(*v1alpha1.Tenant)
		want   []string // parts of the error, none if there is none
	}{
		"standard limits": {change: quotaOf("cpu", "1500m", "requests.memory", "1Gi", "limits.ephemeral-storage", "1Gi", "services.nodeports", "0", "pods", "3")},
		"other limits": {change: quotaOf("requests.nvidia.com/gpu", "2", "hugepages-2Mi", "1Gi", "requests.hugepages-1Gi", "1Gi", "tenantry.io/stored-bytes", "100Mi",
			"gold.storageclass.storage.k8s.io/requests.storage", "1Ti", "gold.storageclass.storage.k8s.io/persistentvolumeclaims", "2",
			"gpu.deviceclass.resource.k8s.io/devices", "1", "requests.deviceclass.resource.kubernetes.io/gpu", "1")},
		"counts": {change: quotaOf("count/namespaces", "1", "count/deployments.apps", "1", "count/endpoints", "1", "count/ingresses.networking.k8s.io", "1",
			"count/widgets.example.com", "1", "count/customresourcedefinitions.apiextensions.k8s.io", "1", "count/ipaddresses.networking.k8s.io", "1")},
		"unknown limit":            {change: quotaOf("pod", "1"), want: []string{"spec.quota[pod]", "allowed are"}},
		"unknown, of a domain":     {change: quotaOf("example.com/bytes", "1"), want: []string{"spec.quota[example.com/bytes]", "allowed are"}},
		"upper case":               {change: quotaOf("Pods", "1"), want: []string{"spec.quota[Pods]"}},
		"count of nothing":         {change: quotaOf("count/", "1"), want: []string{"spec.quota[count/]", "no resource"}},
		"count of a kind":          {change: quotaOf("count/Deployment.apps", "1"), want: []string{"spec.quota[count/Deployment.apps]", "no resource"}},
		"count in the singular":    {change: quotaOf("count/pod", "1"), want: []string{"spec.quota[count/pod]", "in the plural"}},
		"count of events":          {change: quotaOf("count/events.events.k8s.io", "1"), want: []string{"spec.quota[count/events.events.k8s.io]", "no quota counts them"}},
		"count in the wrong group": {change: quotaOf("count/deployments", "1"), want: []string{"spec.quota[count/deployments]", `API group ""`}},
		"count in no group":        {change: quotaOf("count/widgets.-", "1"), want: []string{"spec.quota[count/widgets.-]", "no API group"}},
		"requests of no domain":    {change: quotaOf("requests.gpu", "1"), want: []string{"spec.quota[requests.gpu]", "no extended resource"}},
		"requests of Kubernetes":   {change: quotaOf("requests.kubernetes.io/gpu", "1"), want: []string{"no extended resource"}},
		"huge pages of no size":    {change: quotaOf("hugepages-big", "1"), want: []string{"spec.quota[hugepages-big]", "no size"}},
		"storage of no class":      {change: quotaOf(".storageclass.storage.k8s.io/requests.storage", "1"), want: []string{"no name of a class"}},
		"count in a name too long": {change: quotaOf("count/"+long, "1"), want: []string{"spec.quota[count/" + long, "no more than 63"}},
		"count that ends in a dot": {change: quotaOf("count/configmaps.", "1"), want: []string{"spec.quota[count/configmaps.]", "must consist of"}},
		"requests of a long name":  {change: quotaOf("requests.example.com/"+strings.Repeat("x", 64), "1"), want: []string{"no extended resource"}},
		"storage of a long class":  {change: quotaOf(strings.Repeat("x", 240)+".storageclass.storage.k8s.io/requests.storage", "1"), want: []string{"no more than 253"}},
		"requests of a long domain": {change: quotaOf("requests."+strings.Repeat("x", 63)+strings.Repeat("."+strings.Repeat("x", 62), 3)+"/gpu", "1"),
			want: []string{"no more than 253"}},
		"count of lists":           {change: quotaOf("count/podlists", "1"), want: []string{"spec.quota[count/podlists]", "no resource"}},
		"count of lists in groups": {change: quotaOf("count/deploymentlists.apps", "1"), want: []string{"no resource"}},
		"count of watch events":    {change: quotaOf("count/watchevents.apps", "1"), want: []string{"no resource"}},
		"count of bindings":        {change: quotaOf("count/bindings", "1"), want: []string{"no resource"}},
		"count of nodes":           {change: quotaOf("count/nodes", "1"), want: []string{"no resource"}},
		"count of tenants":         {change: quotaOf("count/tenants", "1"), want: []string{"no resource"}},
		"count of Tenants":         {change: quotaOf("count/tenants.tenantry.io", "1"), want: []string{"no resource"}},
		"count of devices":         {change: quotaOf("count/resourceslices.resource.k8s.io", "1"), want: []string{"no resource"}},
		"count of APIServices":     {change: quotaOf("count/apiservices.apiregistration.k8s.io", "1"), want: []string{"no resource"}},
		"negative huge pages":      {change: quotaOf("hugepages--2Mi", "1"), want: []string{"spec.quota[hugepages--2Mi]", "no size"}},
		"huge pages of 0":          {change: quotaOf("requests.hugepages-0", "1"), want: []string{"no size"}},
		"negative limit":           {change: quotaOf("pods", "-1"), want: []string{"spec.quota[pods]", "must not be negative"}},
		"half a pod":               {change: quotaOf("pods", "1500m"), want: []string{"spec.quota[pods]", "whole number"}},
		"half a GPU":               {change: quotaOf("requests.nvidia.com/gpu", "500m"), want: []string{"whole number"}},
		"half a count":             {change: quotaOf("count/widgets.example.com", "500m"), want: []string{"whole number"}},
		"half a byte of a class":   {change: quotaOf("gold.storageclass.storage.k8s.io/requests.storage", "500m"), want: []string{"whole number"}},
		"too many pods": {change: quotaOf("pods", "99999999999999999999"),
			want: []string{"spec.quota[pods]", "99999999999999999999", "must not be more than 9223372036854775;"}},
		"too many of a count":     {change: quotaOf("count/widgets.example.com", "10Pi"), want: []string{"spec.quota[count/widgets.example.com]", "must not be more than"}},
		"too much memory":         {change: quotaOf("memory", "1e30"), want: []string{"spec.quota[memory]", "must not be more than 9223372036854775807;"}},
		"two wrong limits":        {change: quotaOf("a", "1", "b", "1"), want: []string{"spec.quota[a]", "spec.quota[b]"}},
		"no limits":               {change: quotaOf()},
		"account as admin":        {change: admins("User", "system:serviceaccount:default:robot")},
		"half an account":         {change: admins("User", "system:serviceaccount:ci"), want: []string{"system:serviceaccount:NAMESPACE:NAME"}},
		"account without a name":  {change: admins("User", "system:serviceaccount:ci:"), want: []string{"system:serviceaccount:NAMESPACE:NAME"}},
		"account of three parts":  {change: admins("User", "system:serviceaccount:ci:a:b"), want: []string{"system:serviceaccount:NAMESPACE:NAME"}},
		"account in capitals":     {change: admins("User", "system:serviceaccount:CI:robot"), want: []string{"system:serviceaccount:NAMESPACE:NAME"}},
		"account with dots":       {change: admins("User", "system:serviceaccount:ci:robot.v2")},
		"accounts of no place":    {change: admins("Group", "system:serviceaccounts:"), want: []string{"system:serviceaccounts[:NAMESPACE]"}},
		"blanks around an admin":  {change: admins("User", " admin "), want: []string{"blanks around"}},
		"line after an admin":     {change: admins("Group", "developers\n"), want: []string{"blanks around"}},
		"blanks within an admin":  {change: admins("User", "Jane Doe")},
		"accounts as admins":      {change: admins("Group", "system:serviceaccounts:default")},
		"everybody as admin":      {change: admins("Group", "system:authenticated")},
		"user of the platform":    {change: admins("User", "system:admin"), want: []string{"spec.admins[0]", "are the platform's"}},
		"group of the platform":   {change: admins("Group", "system:masters"), want: []string{"spec.admins[0]", "are the platform's"}},
		"placement":               {change: placement("Limited", []string{"topology.kubernetes.io/zone"}, []string{"gpu"})},
		"placement of no mode":    {change: placement("", nil, nil), want: []string{"spec.nodePlacement.mode"}},
		"placement of other mode": {change: placement("Some", nil, nil), want: []string{"spec.nodePlacement.mode", "Limited"}},
		"labels without a limit":  {change: placement("Enabled", []string{"a"}, nil), want: []string{"spec.nodePlacement", "need mode: Limited"}},
		"a label that is none":    {change: placement("Limited", []string{"a b"}, nil), want: []string{"spec.nodePlacement.allowedLabels[0]"}},
		"an empty taint":          {change: placement("Limited", nil, []string{""}), want: []string{"spec.nodePlacement.allowedTaints[0]"}},
		"negative rate": {change: func(t *v1alpha1.Tenant) { t.Spec.RateLimit = &v1alpha1.RateLimit{RequestsPerSecond: new(int32(-1))} },
			want: []string{"spec.rateLimit.requestsPerSecond"}},
		"burst alone": {change: func(t *v1alpha1.Tenant) { t.Spec.RateLimit = &v1alpha1.RateLimit{Burst: new(int32(1))} },
			want: []string{"spec.rateLimit", "burst needs requestsPerSecond"}},
		"burst of no rate": {change: func(t *v1alpha1.Tenant) {
			t.Spec.RateLimit = &v1alpha1.RateLimit{Burst: new(int32(5)), RequestsPerSecond: new(int32(0))}
		}, want: []string{"spec.rateLimit", "burst has no effect"}},
		"admin of two lines":    {change: admins("User", "al\nice"), want: []string{"spec.admins[0]", "control characters"}},
		"admin with an end":     {change: admins("User", "al\x00ice"), want: []string{"spec.admins[0]", "control characters"}},
		"login of two lines":    {change: login("a\nb"), want: []string{"spec.kubeconfigSecret.user", "control characters"}},
		"login with blanks":     {change: login(" a"), want: []string{"spec.kubeconfigSecret.user", "blanks around it"}},
		"login of Keystone":     {change: login("keystone:x"), want: []string{"spec.kubeconfigSecret.user", "begin with system: or keystone:"}},
		"group with blanks":     {change: login("a", " a"), want: []string{"spec.kubeconfigSecret.groups", "blanks around it"}},
		"group of two lines":    {change: login("a", "a\nb"), want: []string{"spec.kubeconfigSecret.groups", "control characters"}},
		"login of anybody else": {change: login("alice", "devs")},
		"small burst": {change: func(t *v1alpha1.Tenant) {
			t.Spec.RateLimit = &v1alpha1.RateLimit{Burst: new(int32(1)), RequestsPerSecond: new(int32(2))}
		}, want: []string{"spec.rateLimit", "burst must not be less"}},
		"negative requests in flight": {change: func(t *v1alpha1.Tenant) { t.Spec.RateLimit = &v1alpha1.RateLimit{InFlight: new(int32(-1))} }, want: []string{"spec.rateLimit.inFlight"}},
		"negative watches":            {change: func(t *v1alpha1.Tenant) { t.Spec.RateLimit = &v1alpha1.RateLimit{Watches: new(int32(-1))} }, want: []string{"spec.rateLimit.watches"}},
		"unknown stage": {change: func(t *v1alpha1.Tenant) {
			t.Spec.AuditPolicy = auditPolicy(auditv1.LevelNone)
			t.Spec.AuditPolicy.OmitStages = []auditv1.Stage{"Never"}
		}, want: []string{"spec.auditPolicy.omitStages"}},
	} {
		t.Run(name, func(t *testing.T) {
			err := s.Validate(context.Background(), newTenant("a", tc.change)).ToAggregate()
			if len(tc.want) == 0 && err != nil {
				t.Errorf("refused: %v", err)
			}
			for _, want := range tc.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, want %q", err, want)
				}
			}
		})
	}
	for field, change := range map[string]func(*v1alpha1.Tenant){
		"spec.quota": quotaOf("pods", "1"), "spec.admins": admins("User", "u"), "spec.nodePlacement": placement("Enabled", nil, nil),
		"spec.daemonSets": func(t *v1alpha1.Tenant) { t.Spec.DaemonSets = &v1alpha1.DaemonSets{Mode: v1alpha1.DaemonSetsInert} },
		"spec.rateLimit":  func(t *v1alpha1.Tenant) { t.Spec.RateLimit = &v1alpha1.RateLimit{InFlight: new(int32(1))} },
		"spec.requestLimit": func(t *v1alpha1.Tenant) {
			t.Spec.RequestLimit = &v1alpha1.RequestLimit{BodyBytes: new(int64(1 << 10))}
		},
	} {
		if err := s.Validate(context.Background(), newTenant("system", change)).ToAggregate(); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s of the built-in tenant: %v", field, err)
		}
	}
}

// TestValidateChanges says that what was stored before a rule came keeps nobody from
// changing something else.
func TestValidateChanges(t *testing.T) {
	s := newStrategy(t)
	invalid := func(t *v1alpha1.Tenant) {
		quotaOf("pod", "-1", "pods", "1")(t)
		admins("Group", "system:masters")(t)
		placement("Limited", []string{"a b"}, nil)(t)
		t.Spec.AuditPolicy = auditPolicy("All")
		t.Spec.RateLimit = &v1alpha1.RateLimit{RequestsPerSecond: new(int32(-1))}
	}
	for name, tc := range map[string]struct {
		change func(*v1alpha1.Tenant)
		want   string
	}{
		"nothing":               {change: func(*v1alpha1.Tenant) {}},
		"a label":               {change: func(t *v1alpha1.Tenant) { t.Labels = map[string]string{"l": "v"} }},
		"a finalizer":           {change: func(t *v1alpha1.Tenant) { t.Finalizers = nil }},
		"another field":         {change: func(t *v1alpha1.Tenant) { t.Spec.Suspended = true }},
		"another limit":         {change: func(t *v1alpha1.Tenant) { t.Spec.Quota["services"] = resource.MustParse("1") }},
		"a valid limit":         {change: func(t *v1alpha1.Tenant) { t.Spec.Quota["pods"] = resource.MustParse("2") }},
		"the wrong one removed": {change: func(t *v1alpha1.Tenant) { delete(t.Spec.Quota, "pod") }},
		"all of it removed":     {change: func(t *v1alpha1.Tenant) { t.Spec = v1alpha1.TenantSpec{} }},
		"another wrong value":   {change: func(t *v1alpha1.Tenant) { t.Spec.Quota["pod"] = resource.MustParse("-2") }, want: "spec.quota[pod]"},
		"another wrong limit":   {change: func(t *v1alpha1.Tenant) { t.Spec.Quota["service"] = resource.MustParse("1") }, want: "spec.quota[service]"},
		"another wrong admin":   {change: admins("Group", "system:nodes"), want: "spec.admins[0]"},
		"another wrong level":   {change: func(t *v1alpha1.Tenant) { t.Spec.AuditPolicy = auditPolicy("Most") }, want: "spec.auditPolicy"},
		"another wrong rate": {change: func(t *v1alpha1.Tenant) { t.Spec.RateLimit.RequestsPerSecond = new(int32(-2)) },
			want: "spec.rateLimit.requestsPerSecond"},
	} {
		t.Run(name, func(t *testing.T) {
			old := newTenant("a", invalid)
			changed := old.DeepCopy()
			tc.change(changed)
			err := s.ValidateUpdate(context.Background(), changed, old).ToAggregate()
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
			if err := (statusStrategy{s}).ValidateUpdate(context.Background(), old.DeepCopy(), old).ToAggregate(); err != nil {
				t.Errorf("status: %v", err)
			}
		})
	}
}

func TestPrepareForCreate(t *testing.T) {
	s := newStrategy(t)
	got := newTenant("a", func(t *v1alpha1.Tenant) { t.Status.ObservedGeneration = 7 })
	s.PrepareForCreate(context.Background(), got)
	want := newTenant("a", func(t *v1alpha1.Tenant) { t.Generation, t.Finalizers = 1, []string{v1alpha1.SpaceFinalizer} })
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	system := newTenant("system")
	s.PrepareForCreate(context.Background(), system)
	if len(system.Finalizers) > 0 {
		t.Errorf("the built-in tenant has finalizers %q; its space is never emptied", system.Finalizers)
	}
}

func TestCredentialsOfAnEarlierTenant(t *testing.T) {
	s := newStrategy(t)
	before := metav1.Now().Rfc3339Copy()
	got := newTenant("again")
	s.PrepareForCreate(context.Background(), got)
	since := got.Status.CredentialsNotBefore
	if since == nil || since.Before(&before) || since.After(time.Now()) {
		t.Fatalf("credentials are good since %v, want now, %v", since, before)
	}
	changed := newTenant("again")
	statusStrategy{s}.PrepareForUpdate(context.Background(), changed, got)
	if changed := changed.Status.CredentialsNotBefore; changed == nil || !changed.Equal(since) {
		t.Errorf("after a change of the status, credentials are good since %v, want %v", changed, since)
	}
}

func TestPrepareForUpdate(t *testing.T) {
	old := newTenant("a", func(t *v1alpha1.Tenant) {
		t.Generation, t.Finalizers, t.Status.ObservedGeneration = 3, []string{v1alpha1.SpaceFinalizer}, 3
	})
	changed := newTenant("a", func(t *v1alpha1.Tenant) {
		t.Generation, t.Labels, t.Spec.Suspended, t.Status.ObservedGeneration = 3, map[string]string{"l": "v"}, true, 9
	})
	main := newStrategy(t)
	for name, tc := range map[string]struct {
		update interface {
			PrepareForUpdate(ctx context.Context, obj, old runtime.Object)
		}
		want *v1alpha1.Tenant
	}{
		"main resource": {update: main, want: newTenant("a", func(t *v1alpha1.Tenant) {
			t.Generation, t.Labels, t.Spec.Suspended, t.Status.ObservedGeneration = 4, map[string]string{"l": "v"}, true, 3
		})},
		"status changes status alone": {update: statusStrategy{main}, want: newTenant("a", func(t *v1alpha1.Tenant) {
			t.Generation, t.Finalizers, t.Status.ObservedGeneration = 3, []string{v1alpha1.SpaceFinalizer}, 9
		})},
		"finalize changes finalizers alone": {update: finalizeStrategy{main}, want: newTenant("a", func(t *v1alpha1.Tenant) {
			t.Generation, t.Status.ObservedGeneration = 3, 3
		})},
	} {
		t.Run(name, func(t *testing.T) {
			got := changed.DeepCopy()
			tc.update.PrepareForUpdate(context.Background(), got, old.DeepCopy())
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestReleases(t *testing.T) {
	held := newTenant("a", func(t *v1alpha1.Tenant) { t.Finalizers = []string{"other", v1alpha1.SpaceFinalizer} })
	other := newTenant("a", func(t *v1alpha1.Tenant) { t.Finalizers = []string{"other"} })
	for _, tc := range []struct {
		obj, old *v1alpha1.Tenant
		want     bool
	}{
		{held, held, false}, {other, held, true}, {other, other, false}, {newTenant("a"), held, true}, {held, other, false},
	} {
		if got := releases(tc.obj, tc.old); got != tc.want {
			t.Errorf("releases(%q, %q) = %v", tc.obj.Finalizers, tc.old.Finalizers, got)
		}
	}
}

// TestScheme checks that one Go type serves every version: encoding to a version
// sets its apiVersion, and decoding gives the same object.
func TestScheme(t *testing.T) {
	scheme := runtime.NewScheme()
	definition.AddToScheme(scheme)
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	codecs := serializer.NewCodecFactory(scheme)
	want := newTenant("a", func(t *v1alpha1.Tenant) { t.Spec.Suspended = true })
	for _, gv := range []schema.GroupVersion{{Version: "v1"}, v1alpha1.GroupVersion} {
		encoded, err := runtime.Encode(codecs.LegacyCodec(gv), want.DeepCopy())
		if err != nil {
			t.Fatal(err)
		}
		if apiVersion := `"apiVersion":"` + gv.String() + `"`; !strings.Contains(string(encoded), apiVersion) {
			t.Errorf("encoded for %s: %s", gv, encoded)
		}
		decoded, err := runtime.Decode(codecs.UniversalDecoder(), encoded)
		if err != nil {
			t.Fatal(err)
		}
		got, ok := decoded.(*v1alpha1.Tenant)
		if !ok {
			t.Fatalf("decoded a %T", decoded)
		}
		got.TypeMeta = metav1.TypeMeta{}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
}

// TestResourceQuotaTakesTheLimits says that the limits of a Tenant, which become a
// ResourceQuota, are refused where that would be.
func TestResourceQuotaTakesTheLimits(t *testing.T) {
	s := newStrategy(t)
	taken := 0
	for _, name := range []string{
		"cpu", "limits.memory", "requests.ephemeral-storage", "requests.storage", "pods", "services.nodeports", "persistentvolumeclaims", "resourcequotas",
		"count/configmaps", "count/deployments.apps", "requests.nvidia.com/gpu", "hugepages-2Mi", "requests.hugepages-2Mi", "tenantry.io/stored-bytes",
		"gold.storageclass.storage.k8s.io/requests.storage", "gold.storageclass.storage.k8s.io/persistentvolumeclaims", "gpu.deviceclass.resource.k8s.io/devices",
	} {
		for _, value := range []string{
			"-1", "0", "1n", "0.5", "1.5", "1", "1Ki", "1099511627776.5", "9223372036854775", "9223372036854775.5", "9223372036854776", "9300T", "10Pi", "7E", "8Ei",
			"9223372036854775807", "9223372036854775808", "99999999999999999999", "1e30",
		} {
			if err := s.Validate(context.Background(), newTenant("a", quotaOf(name, value))).ToAggregate(); err != nil {
				continue
			}
			taken++
			quota := core.ResourceQuotaSpec{Hard: core.ResourceList{core.ResourceName(name): resource.MustParse(value)}}
			if errs := validation.ValidateResourceQuotaSpec(&quota, field.NewPath("spec")); len(errs) > 0 {
				t.Errorf("%s: %s is taken, but a ResourceQuota refuses it: %v", name, value, errs.ToAggregate())
			}
		}
	}
	if taken == 0 {
		t.Error("nothing was taken")
	}
}
