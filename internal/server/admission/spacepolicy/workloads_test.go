package spacepolicy

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/kubernetes/pkg/apis/apps"
	"k8s.io/kubernetes/pkg/apis/authentication"
	"k8s.io/kubernetes/pkg/apis/batch"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/apis/networking"

	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/internal/workloads/translate"
)

// admin is a user of the system tenant, and apiserver the server's own controllers.
var (
	admin     = &user.DefaultInfo{Name: "admin", Extra: map[string][]string{tenant.UserExtraKey: {"system"}}}
	apiserver = &user.DefaultInfo{Name: user.APIServerUser, Extra: map[string][]string{tenant.UserExtraKey: {"system"}}}
)

func placed(uid string) *core.Pod {
	return &core.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"workloads.tenantry.io/host-uid": uid}}}
}

func claim(change func(*core.PersistentVolumeClaim)) *core.PersistentVolumeClaim {
	c := &core.PersistentVolumeClaim{Spec: core.PersistentVolumeClaimSpec{StorageClassName: new("fast")}}
	if change != nil {
		change(c)
	}
	return c
}

func set(change func(*core.PersistentVolumeClaim)) *apps.StatefulSet {
	return &apps.StatefulSet{Spec: apps.StatefulSetSpec{VolumeClaimTemplates: []core.PersistentVolumeClaim{*claim(change)}}}
}

func sized(of string) func(*core.PersistentVolumeClaim) {
	return func(c *core.PersistentVolumeClaim) {
		c.Spec.Resources.Requests = core.ResourceList{core.ResourceStorage: resource.MustParse(of)}
	}
}

func finalized(c *core.PersistentVolumeClaim) { c.Finalizers = []string{"workloads.tenantry.io/claim"} }

func onHost(n tenant.Name) translate.Rules {
	if n == "a" {
		return translate.Rules{Level: translate.Privileged, HostNames: []string{"a.example.com"}, IngressClasses: []string{"nginx"}}
	}
	return translate.Rules{}
}

// routed is an Ingress of a host.
func routed(host string) *networking.Ingress {
	return &networking.Ingress{Spec: networking.IngressSpec{Rules: []networking.IngressRule{{Host: host}}}}
}

// wanting is a namespace with a note that it is wanted on the host.
var wanting = &core.Namespace{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"workloads.tenantry.io/wanted": "2026-01-01T00:00:00Z"}}}

// over is a pod that has come to its end.
var over = &core.Pod{Status: core.PodStatus{Phase: core.PodSucceeded}}

// gateIs is a pod with the condition of a readiness gate.
func gateIs(status core.ConditionStatus) *core.Pod {
	return &core.Pod{Status: core.PodStatus{Conditions: []core.PodCondition{{Type: "example.com/gate", Status: status}}}}
}

func conditions(types ...core.PodConditionType) *core.Pod {
	pod := &core.Pod{}
	for _, t := range types {
		pod.Status.Conditions = append(pod.Status.Conditions, core.PodCondition{Type: t, Status: core.ConditionTrue})
	}
	return pod
}

// debugged is a pod with an ephemeral container for each security context.
func debugged(all ...*core.SecurityContext) *core.Pod {
	pod := &core.Pod{}
	for i, s := range all {
		pod.Spec.EphemeralContainers = append(pod.Spec.EphemeralContainers, core.EphemeralContainer{EphemeralContainerCommon: core.EphemeralContainerCommon{Name: fmt.Sprint("d", i), SecurityContext: s}})
	}
	return pod
}

func requesting(cpu string) core.ResourceRequirements {
	return core.ResourceRequirements{Requests: core.ResourceList{core.ResourceCPU: resource.MustParse(cpu)}}
}

// asking is a pod whose containers ask for so many processors.
func asking(cpus ...string) *core.Pod {
	pod := &core.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}}
	for i, cpu := range cpus {
		pod.Spec.Containers = append(pod.Spec.Containers, core.Container{Name: fmt.Sprint("c", i), Resources: requesting(cpu)})
	}
	return pod
}

func TestWorkloads(t *testing.T) {
	hosted := core.PodSpec{HostNetwork: true}
	template := core.PodTemplateSpec{Spec: hosted}
	labelled := core.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"workloads.tenantry.io/installation": "x"}}}
	privileged := core.PodSpec{Containers: []core.Container{{Name: "c", SecurityContext: &core.SecurityContext{Privileged: new(true)}}}}
	rule := "Forbidden: pods of a space have nothing of the host's nodes"
	for name, tc := range map[string]struct {
		space       tenant.Name
		user        user.Info
		subresource string
		object, old runtime.Object
		want        string
	}{
		"a pod":                            {object: &core.Pod{Spec: hosted}, want: "SpacePolicy: spec.hostNetwork: " + rule},
		"a pod of an administrator":        {user: admin, object: &core.Pod{Spec: hosted}, want: "spec.hostNetwork: " + rule},
		"a pod of a controller":            {user: apiserver, object: &core.Pod{Spec: hosted}, want: "spec.hostNetwork: " + rule},
		"a pod of the system space":        {space: tenant.System, user: admin, object: &core.Pod{Spec: hosted}},
		"a template":                       {object: &core.PodTemplate{Template: template}, want: "template.spec.hostNetwork: " + rule},
		"a replication controller":         {object: &core.ReplicationController{Spec: core.ReplicationControllerSpec{Template: &template}}, want: "spec.template.spec.hostNetwork: " + rule},
		"a replication controller of none": {object: &core.ReplicationController{}},
		"a deployment":                     {object: &apps.Deployment{Spec: apps.DeploymentSpec{Template: template}}, want: "spec.template.spec.hostNetwork: " + rule},
		"a replica set":                    {object: &apps.ReplicaSet{Spec: apps.ReplicaSetSpec{Template: template}}, want: "spec.template.spec.hostNetwork: " + rule},
		"a stateful set":                   {object: &apps.StatefulSet{Spec: apps.StatefulSetSpec{Template: template}}, want: "spec.template.spec.hostNetwork: " + rule},
		"a job":                            {object: &batch.Job{Spec: batch.JobSpec{Template: template}}, want: "spec.template.spec.hostNetwork: " + rule},
		"a cron job":                       {object: &batch.CronJob{Spec: batch.CronJobSpec{JobTemplate: batch.JobTemplateSpec{Spec: batch.JobSpec{Template: template}}}}, want: "spec.jobTemplate.spec.template.spec.hostNetwork: " + rule},
		"labels of a template":             {object: &apps.Deployment{Spec: apps.DeploymentSpec{Template: labelled}}, want: "metadata.labels[workloads.tenantry.io/installation]"},
		"what was so before":               {object: &apps.Deployment{Spec: apps.DeploymentSpec{Template: template}}, old: &apps.Deployment{Spec: apps.DeploymentSpec{Template: template}}},
		"what was not so before":           {object: &apps.Deployment{Spec: apps.DeploymentSpec{Template: template}}, old: &apps.Deployment{}, want: "hostNetwork"},
		"a status":                         {subresource: "status", object: &core.Pod{Spec: hosted}, old: &core.Pod{}},
		"a privileged pod":                 {space: "b", user: admin, object: &core.Pod{Spec: privileged}, want: "it violates the Pod Security level baseline of the Tenant"},
		"a privileged pod that may be":     {object: &core.Pod{Spec: privileged}},
		"a node":                           {user: admin, object: &core.Pod{Spec: core.PodSpec{NodeName: "node"}}, want: "spec.nodeName: Forbidden: the host cluster finds the node"},
		"a pod that has got a node":        {user: admin, object: &core.Pod{Spec: core.PodSpec{NodeName: "node"}}, old: &core.Pod{Spec: core.PodSpec{NodeName: "node"}}},
		"a binding":                        {subresource: "binding", object: &core.Binding{Target: core.ObjectReference{Name: "node"}}, want: "the host cluster finds the nodes of pods"},
		"the host's binding":               {user: admin, subresource: "binding", object: &core.Binding{Target: core.ObjectReference{Name: "node"}}},
		"another place":                    {object: placed("other"), old: placed("one"), want: "annotations below workloads.tenantry.io/ say where an object is"},
		"no place any more":                {subresource: "status", object: &core.Pod{}, old: placed("one"), want: "say where an object is on the host cluster"},
		"a namespace that wants one":       {object: wanting, want: "what is wanted there"},
		"a namespace that chooses a name":  {object: &core.Namespace{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"workloads.tenantry.io/salt": "s"}}}, want: "what is wanted there"},
		"a namespace that comes to want":   {object: wanting, old: &core.Namespace{}, want: "what is wanted there"},
		"a namespace that a server wants":  {user: admin, object: wanting, old: &core.Namespace{}},
		"a namespace that wants as before": {object: wanting, old: wanting},
		"any mark of the platform":         {object: &core.ConfigMap{ObjectMeta: wanting.ObjectMeta}, old: &core.ConfigMap{}, want: "annotations below workloads.tenantry.io/"},
		"a copy of an object with a mark":  {object: placed("one")},
		"the same place":                   {object: placed("one"), old: placed("one")},
		"a place of the platform":          {user: admin, object: placed("one"), old: &core.Pod{}},
		"a phase":                          {subresource: "status", object: over, old: &core.Pod{}, want: "status is what the host cluster says of the pod"},
		"a phase that the host says":       {user: admin, subresource: "status", object: over, old: &core.Pod{}},
		"a phase that was there before":    {subresource: "status", object: over, old: over},
		"a condition of the host":          {subresource: "status", object: conditions(core.PodReady), old: &core.Pod{}, want: "change nothing but conditions of your own types"},
		"no condition of the host":         {subresource: "status", object: &core.Pod{}, old: conditions(core.PodScheduled), want: "status is what the host cluster says"},
		"a readiness gate of any text":     {subresource: "status", object: gateIs("much"), old: gateIs("True"), want: "the status of a condition is True, False or Unknown"},
		"a text that was there before":     {subresource: "status", object: gateIs("much"), old: gateIs("much")},
		"a text by the platform":           {user: admin, subresource: "status", object: gateIs("much"), old: &core.Pod{}, want: "status.conditions[0].status"},
		"a readiness gate":                 {subresource: "status", object: conditions(core.PodReady, "example.com/gate"), old: conditions(core.PodReady)},
		"an ephemeral container":           {subresource: "ephemeralcontainers", object: debugged(nil), old: &core.Pod{}},
		"a privileged one":                 {space: "b", subresource: "ephemeralcontainers", object: debugged(&core.SecurityContext{Privileged: new(true)}), old: &core.Pod{}, want: "it violates the Pod Security level baseline of the Tenant"},
		"a privileged one of the platform": {space: "b", user: admin, subresource: "ephemeralcontainers", object: debugged(&core.SecurityContext{Privileged: new(true)}), old: &core.Pod{}, want: "it violates the Pod Security level baseline of the Tenant"},
		"another beside a privileged one":  {space: "b", subresource: "ephemeralcontainers", object: debugged(&core.SecurityContext{Privileged: new(true)}, nil), old: debugged(&core.SecurityContext{Privileged: new(true)})},
		"another privileged one":           {space: "b", subresource: "ephemeralcontainers", object: debugged(&core.SecurityContext{Privileged: new(true)}, &core.SecurityContext{Privileged: new(true)}), old: debugged(&core.SecurityContext{Privileged: new(true)}), want: "baseline"},
		"a place by a debugger":            {subresource: "ephemeralcontainers", object: placed("other"), old: placed("one"), want: "say where an object is on the host cluster"},
		"a resize":                         {subresource: "resize", object: asking("2"), old: asking("1")},
		"a resize of a device":             {subresource: "resize", object: &core.Pod{Spec: core.PodSpec{Containers: []core.Container{{Name: "c", Resources: core.ResourceRequirements{Limits: core.ResourceList{"smarter-devices/mem": resource.MustParse("1")}}}}}}, old: &core.Pod{Spec: core.PodSpec{Containers: []core.Container{{Name: "c"}}}}, want: "devices of the host's nodes are not for this Tenant"},
		"a Service":                        {object: &core.Service{Spec: core.ServiceSpec{Selector: map[string]string{"a": "b"}}}},
		"a Service's external addresses":   {user: admin, object: &core.Service{Spec: core.ServiceSpec{Selector: map[string]string{"a": "b"}, ExternalIPs: []string{"8.8.8.8"}}}, want: "SpacePolicy: spec.externalIPs: Forbidden: addresses from outside"},
		"a Service's node ports":           {object: &core.Service{Spec: core.ServiceSpec{Selector: map[string]string{"a": "b"}, Type: core.ServiceTypeNodePort}}, want: "spec.type: Forbidden: ports of the host's nodes are not for this Tenant"},
		"a Service's load balancer":        {object: balancer(nil), want: "spec.type: Forbidden: load balancers of the host are not for this Tenant"},
		"a load balancer from before":      {object: balancer(new(false)), old: balancer(new(false))},
		"a load balancer that gets ports":  {object: balancer(new(true)), old: balancer(new(false)), want: "spec.allocateLoadBalancerNodePorts: Forbidden: ports of the host's nodes are not for this Tenant"},
		"a Service that was so before":     {object: &core.Service{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}}}, old: &core.Service{}},
		"a Service of the system space":    {space: tenant.System, user: admin, object: &core.Service{Spec: core.ServiceSpec{ExternalIPs: []string{"8.8.8.8"}}}},
		"something else":                   {object: &core.ConfigMap{}},
		"an Ingress":                       {object: routed("a.example.com")},
		"an Ingress of another's name":     {object: routed("b.example.com"), want: "SpacePolicy: spec.rules[0].host: Forbidden: Ingresses of this Tenant may name a.example.com"},
		"an Ingress of an administrator":   {user: admin, object: routed(""), want: "spec.rules[0].host: Forbidden: without a host"},
		"an Ingress that was so before":    {object: routed("b.example.com"), old: routed("b.example.com")},
		"an Ingress that was not":          {object: routed("b.example.com"), old: routed("a.example.com"), want: "spec.rules[0].host"},
		"an annotation of an Ingress":      {object: &networking.Ingress{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"nginx.ingress.kubernetes.io/server-snippet": "x"}}}, want: "metadata.annotations[nginx.ingress.kubernetes.io/server-snippet]"},
		"an Ingress without host names":    {space: "b", object: routed("")},

		"a claim":                            {object: claim(nil)},
		"a claim that names a volume":        {object: claim(func(c *core.PersistentVolumeClaim) { c.Spec.VolumeName = "v" }), want: "spec.volumeName: the host cluster finds volumes, which may be anybody's"},
		"a claim that selects volumes":       {object: claim(func(c *core.PersistentVolumeClaim) { c.Spec.Selector = &metav1.LabelSelector{} }), want: "SpacePolicy: spec.selector: Forbidden: volumes of the host are not chosen by labels"},
		"a claim of an administrator":        {user: admin, object: claim(func(c *core.PersistentVolumeClaim) { c.Spec.Selector = &metav1.LabelSelector{} }), want: "spec.selector"},
		"a claim without a class":            {object: claim(func(c *core.PersistentVolumeClaim) { c.Spec.StorageClassName = new("") }), want: "spec.storageClassName: Forbidden: volumes without a class"},
		"a template of claims":               {object: set(func(c *core.PersistentVolumeClaim) { c.Spec.VolumeName = "v" }), want: "spec.volumeClaimTemplates[0].spec.volumeName: Forbidden: the host cluster finds volumes"},
		"a template of claims that is right": {object: set(nil)},
		"a claim that gets a volume":         {object: claim(func(c *core.PersistentVolumeClaim) { c.Spec.VolumeName = "v" }), old: claim(nil), want: "spec.volumeName: the host cluster finds volumes"},
		"a claim that the host has bound":    {user: admin, object: claim(func(c *core.PersistentVolumeClaim) { c.Spec.VolumeName = "v" }), old: claim(nil)},
		"a claim that has a volume":          {object: claim(func(c *core.PersistentVolumeClaim) { c.Spec.VolumeName = "v" }), old: claim(func(c *core.PersistentVolumeClaim) { c.Spec.VolumeName = "v" })},
		"a claim that grows":                 {object: claim(sized("2Gi")), old: claim(sized("1Gi"))},
		"a claim that shrinks":               {object: claim(sized("1Gi")), old: claim(sized("2Gi")), want: "spec.resources.requests: the host cluster makes no volume smaller"},
		"a claim's status":                   {subresource: "status", object: claim(func(c *core.PersistentVolumeClaim) { c.Status.Phase = core.ClaimBound }), old: claim(nil), want: "status is what the host cluster says of the claim"},
		"a claim's status of the host":       {user: admin, subresource: "status", object: claim(func(c *core.PersistentVolumeClaim) { c.Status.Phase = core.ClaimBound }), old: claim(nil)},
		"a claim that is let go":             {object: claim(nil), old: claim(finalized), want: "metadata.finalizers: workloads.tenantry.io/claim goes by itself"},
		"a claim that is let go by a status": {subresource: "status", object: claim(nil), old: claim(finalized), want: "metadata.finalizers"},
		"a claim that the host lets go":      {user: admin, object: claim(nil), old: claim(finalized)},
		"a claim's place":                    {object: claim(nil), old: claim(func(c *core.PersistentVolumeClaim) { c.Annotations = placed("one").Annotations }), want: "say where an object is"},
		"a volume":                           {object: &core.PersistentVolume{}, want: "spec: volumes of a space are those that the host cluster has found"},
		"a volume of the host":               {user: admin, object: &core.PersistentVolume{}},
		"a volume of the system space":       {space: tenant.System, user: admin, object: &core.PersistentVolume{}},
		"a volume's claim":                   {object: &core.PersistentVolume{Spec: core.PersistentVolumeSpec{ClaimRef: &core.ObjectReference{Name: "mine"}}}, old: &core.PersistentVolume{}, want: "spec is what the host cluster says of the volume"},
		"a volume's status":                  {subresource: "status", object: &core.PersistentVolume{Status: core.PersistentVolumeStatus{Phase: core.VolumeAvailable}}, old: &core.PersistentVolume{}, want: "status is what the host cluster says of the volume"},
		"a volume's labels":                  {object: &core.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}}}, old: &core.PersistentVolume{}},
	} {
		t.Run(name, func(t *testing.T) {
			operation := admission.Create
			if tc.old != nil {
				operation = admission.Update
			}
			if tc.space == "" {
				tc.space = "a"
			}
			if tc.user == nil {
				tc.user = member
			}
			a := admission.NewAttributesRecord(tc.object, tc.old, schema.GroupVersionKind{}, "ns", "x", core.Resource("pods").WithVersion("v1"),
				tc.subresource, operation, nil, false, tc.user)
			header := "apiVersion: config.tenantry.io/v1alpha1\nkind: SpacePolicyConfiguration\nnodePlacement: {mode: Enabled}\n"
			for enabled, want := range map[bool]string{true: tc.want, false: ""} {
				rules := Rules{}
				if enabled {
					rules.Workloads = onHost
				}
				plugin, err := New(strings.NewReader(header), rules)
				if err != nil {
					t.Fatal(err)
				}
				err = plugin.Validate(tenant.WithSpace(t.Context(), tc.space), a, nil)
				if (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
					t.Errorf("where pods run %v: got %v, want %q", enabled, err, want)
				}
			}
		})
	}
}

// balancer is a Service with a load balancer.
func balancer(ports *bool) *core.Service {
	return &core.Service{Spec: core.ServiceSpec{Selector: map[string]string{"a": "b"}, Type: core.ServiceTypeLoadBalancer, AllocateLoadBalancerNodePorts: ports}}
}

// TestLoadBalancerPorts checks that the API's default gives no ports of nodes to Tenants that may have none.
func TestLoadBalancerPorts(t *testing.T) {
	system := func(_ tenant.Name) translate.Rules { return translate.Rules{LoadBalancers: true} }
	for name, tc := range map[string]struct {
		rules       func(tenant.Name) translate.Rules
		space       tenant.Name
		subresource string
		object, old runtime.Object
		want        bool
	}{
		"of a Tenant without":              {rules: system, object: balancer(new(true))},
		"of a Tenant without, unsaid":      {rules: system, object: balancer(nil)},
		"of a Tenant with":                 {rules: func(tenant.Name) translate.Rules { return translate.Rules{LoadBalancers: true, NodePorts: true} }, object: balancer(new(true)), want: true},
		"where no pods run":                {object: balancer(new(true)), want: true},
		"of the system space":              {rules: system, space: tenant.System, object: balancer(new(true)), want: true},
		"of one that had none":             {rules: system, object: balancer(new(true)), old: balancer(new(false))},
		"of one that had some":             {rules: system, object: balancer(new(true)), old: balancer(new(true)), want: true},
		"of one that had some, unsaid":     {rules: system, object: balancer(new(true)), old: balancer(nil), want: true},
		"of one that was something else":   {rules: system, object: balancer(new(true)), old: &core.Service{Spec: core.ServiceSpec{Type: core.ServiceTypeNodePort}}},
		"in what is said of the addresses": {rules: system, subresource: "status", object: balancer(new(true)), old: balancer(new(true)), want: true},
	} {
		t.Run(name, func(t *testing.T) {
			operation, space := admission.Create, tenant.Name("a")
			if tc.old != nil {
				operation = admission.Update
			}
			if tc.space != "" {
				space = tc.space
			}
			a := admission.NewAttributesRecord(tc.object, tc.old, schema.GroupVersionKind{}, "ns", "x", core.Resource("services").WithVersion("v1"), tc.subresource, operation, nil, false, admin)
			plugin, err := New(nil, Rules{Workloads: tc.rules})
			if err != nil {
				t.Fatal(err)
			}
			if err := plugin.Admit(tenant.WithSpace(t.Context(), space), a, nil); err != nil {
				t.Fatal(err)
			}
			if got := tc.object.(*core.Service).Spec.AllocateLoadBalancerNodePorts; got == nil || *got != tc.want {
				t.Errorf("it has ports of nodes: %v, want %v", got, tc.want)
			}
		})
	}
}

// TestMarks checks that an update that leaves out annotations of the platform keeps them, and that no other one does.
func TestMarks(t *testing.T) {
	own := map[string]string{"own": "yes"}
	with := func(annotations ...map[string]string) *core.Pod {
		pod := &core.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{}}}
		for _, some := range annotations {
			maps.Copy(pod.Annotations, some)
		}
		return pod
	}
	place := placed("one").Annotations
	for name, tc := range map[string]struct {
		space       tenant.Name
		user        user.Info
		subresource string
		sent, old   *core.Pod
		want        map[string]string
		// refused is part of why it is refused, empty if it is not.
		refused string
	}{
		"all annotations":              {sent: with(own), old: placed("one"), want: with(own, place).Annotations},
		"no annotations":               {sent: &core.Pod{}, old: placed("one"), want: place},
		"by a subresource":             {subresource: "ephemeralcontainers", sent: with(own), old: placed("one"), want: with(own, place).Annotations},
		"an annotation of the tenant":  {sent: placed("one"), old: with(own, place), want: place},
		"another place":                {sent: placed("other"), old: placed("one"), want: placed("other").Annotations, refused: "say where an object is on the host cluster"},
		"a place of what has none":     {sent: placed("one"), old: with(own), want: place, refused: "say where an object is on the host cluster"},
		"by the platform":              {space: "a", user: admin, sent: with(own), old: placed("one"), want: own},
		"in the system space":          {space: tenant.System, user: admin, sent: with(own), old: placed("one"), want: own},
		"with nothing there before it": {sent: with(own), old: &core.Pod{}, want: own},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.user == nil {
				tc.space, tc.user = "a", member
			}
			a := admission.NewAttributesRecord(tc.sent, tc.old, schema.GroupVersionKind{}, "ns", "x", core.Resource("pods").WithVersion("v1"),
				tc.subresource, admission.Update, nil, false, tc.user)
			plugin, err := New(nil, Rules{Workloads: onHost})
			if err != nil {
				t.Fatal(err)
			}
			before := tc.old.DeepCopy()
			err = plugin.Admit(tenant.WithSpace(t.Context(), tc.space), a, nil)
			if (err != nil) != (tc.refused != "") || err != nil && !strings.Contains(err.Error(), tc.refused) {
				t.Errorf("got %v, want %q", err, tc.refused)
			}
			if diff := cmp.Diff(tc.want, tc.sent.Annotations); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(before, tc.old); diff != "" {
				t.Errorf("what was there is changed: %s", diff)
			}
		})
	}
}

// TestSyncerToken checks that the syncer makes tokens of pods of tenants alone.
func TestSyncerToken(t *testing.T) {
	syncer := &user.DefaultInfo{Name: tenant.Syncer, Extra: map[string][]string{tenant.UserExtraKey: {"system"}}}
	of := func(ref *authentication.BoundObjectReference) *authentication.TokenRequest {
		return &authentication.TokenRequest{Spec: authentication.TokenRequestSpec{BoundObjectRef: ref}}
	}
	pod := &authentication.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: "p", UID: "u"}
	for name, tc := range map[string]struct {
		user   user.Info
		space  tenant.Name
		object *authentication.TokenRequest
		fail   bool
	}{
		"of a pod":                     {syncer, "a", of(pod), false},
		"of any pod of the name":       {syncer, "a", of(&authentication.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: "p"}), true},
		"of a Secret":                  {syncer, "a", of(&authentication.BoundObjectReference{APIVersion: "v1", Kind: "Secret", Name: "p", UID: "u"}), true},
		"of nothing":                   {syncer, "a", of(nil), true},
		"of a pod of the system space": {syncer, tenant.System, of(pod), true},
		"of an administrator":          {admin, "a", of(nil), false},
	} {
		t.Run(name, func(t *testing.T) {
			a := admission.NewAttributesRecord(tc.object, nil, schema.GroupVersionKind{}, "ns", "x", core.Resource("serviceaccounts").WithVersion("v1"),
				"token", admission.Create, nil, false, tc.user)
			plugin, err := New(nil, Rules{})
			if err != nil {
				t.Fatal(err)
			}
			if err := plugin.Validate(tenant.WithSpace(t.Context(), tc.space), a, nil); (err != nil) != tc.fail {
				t.Errorf("got %v", err)
			}
		})
	}
}
