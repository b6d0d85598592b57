package tenant

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestLoadHostLimits checks that limits are held to the rules of ControlPlanes' spec.tenantLimits:
// a word that nobody knows is no limit.
func TestLoadHostLimits(t *testing.T) {
	for name, tc := range map[string]struct {
		limits string
		err    string // empty if they are right
	}{
		"nothing": {limits: "{}"},
		"all": {limits: "{daemonSets: {mode: Refused}, nodePlacement: {mode: Limited, allowedLabels: [pool]}, workloads: {podSecurity: baseline, nodePorts: Refused}, " +
			"rateLimit: {requestsPerSecond: 5, burst: 9}, requestLimit: {bodyBytes: 2048}, quota: {pods: 1, cpu: 500m}, auditPolicy: {least: Metadata, most: Request}}"},
		"audit levels by default":     {limits: "{auditPolicy: {}}"},
		"mode of DaemonSets":          {limits: "{daemonSets: {mode: refused}}", err: `limits.daemonSets.mode: Unsupported value: "refused": supported values: "Refused", "Inert"`},
		"no mode of DaemonSets":       {limits: "{daemonSets: {}}", err: "limits.daemonSets.mode"},
		"mode of placement":           {limits: "{nodePlacement: {mode: limited}}", err: `supported values: "Disabled", "Limited", "Enabled"`},
		"labels in another mode":      {limits: "{nodePlacement: {mode: Enabled, allowedLabels: [pool]}}", err: "allowedLabels and allowedTaints need mode: Limited"},
		"level of pods":               {limits: "{workloads: {podSecurity: Baseline}}", err: `supported values: "privileged", "baseline", "restricted"`},
		"node ports":                  {limits: "{workloads: {nodePorts: refused}}", err: "limits.workloads.nodePorts"},
		"load balancers":              {limits: "{workloads: {loadBalancers: allowed}}", err: "limits.workloads.loadBalancers"},
		"annotations of balancers":    {limits: "{workloads: {loadBalancers: Allowed, loadBalancerAnnotations: [service.beta.kubernetes.io/aws-load-balancer-internal]}}"},
		"one of them that is ours":    {limits: "{workloads: {loadBalancerAnnotations: [workloads.tenantry.io/uid]}}", err: "are the platform's"},
		"a name that is none":         {limits: "{workloads: {hostNames: [A.example.com]}}", err: "limits.workloads.hostNames"},
		"a name of everybody":         {limits: "{workloads: {hostNames: ['*']}}", err: "limits.workloads.hostNames"},
		"names":                       {limits: "{workloads: {hostNames: [a.example.com, '*.example.com'], ingressClasses: [nginx], ingressAnnotations: [nginx.ingress.kubernetes.io/rewrite-target]}}"},
		"an annotation of a class":    {limits: "{workloads: {ingressAnnotations: [kubernetes.io/ingress.class]}}", err: "classes are in ingressClasses"},
		"an annotation of ours":       {limits: "{workloads: {ingressAnnotations: [workloads.tenantry.io/uid]}}", err: "are the platform's"},
		"a negative rate":             {limits: "{rateLimit: {requestsPerSecond: -5}}", err: "limits.rateLimit.requestsPerSecond: Invalid value: -5"},
		"a burst alone":               {limits: "{rateLimit: {burst: 5}}", err: "burst needs requestsPerSecond"},
		"a body that is none":         {limits: "{requestLimit: {bodyBytes: 1}}", err: "limits.requestLimit.bodyBytes"},
		"the least that is logged":    {limits: "{auditPolicy: {least: metadata}}", err: "limits.auditPolicy.least: Unsupported value"},
		"the least is more than most": {limits: "{auditPolicy: {most: None}}", err: "least must not be more than most"},
		"an unknown limit of a quota": {limits: "{quota: {pod: 1}}", err: "limits.quota[pod]"},
		"a singular in a quota":       {limits: "{quota: {count/pod: 1}}", err: "limits.quota[count/pod]"},
		"a part of a pod":             {limits: `{quota: {pods: "1.5"}}`, err: "limits.quota[pods]: Invalid value: \"1500m\": must be a whole number"},
		"a negative limit of a quota": {limits: "{quota: {pods: -1}}", err: "must not be negative"},
		"no limit of a quota":         {limits: "{quota: {pods: }}", err: "limits.quota[pods]: it has no value"},
		"an unknown field":            {limits: "{daemonSet: {mode: Refused}}", err: "unknown field"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "limits.yaml")
			content := "apiVersion: config.tenantry.io/v1alpha1\nkind: TenantLimitsConfiguration\nlimits: " + tc.limits + "\n"
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := LoadHostLimits(t.Context(), path)
			if tc.err == "" && err != nil || tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)) {
				t.Errorf("got %v, want %q", err, tc.err)
			}
		})
	}
}
