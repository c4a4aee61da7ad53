package main

import (
	"fmt"
	"os"
	"os/exec"
)

// need is what a runner cannot do without.
type need struct {
	what    string // for those who do not have it
	test    string // a shell command that succeeds when it is there
	install string // one that brings it
	root    bool   // install is for root only
}

var (
	needKcat   = debian("kcat", "command -v kcat")
	needPython = debian("python3-confluent-kafka", "/usr/bin/python3 -c 'import confluent_kafka'")

	needKafkajs = need{
		what:    "node, npm and its registry (cd compat/kafkajs && npm ci)",
		test:    "command -v node && test -d kafkajs/node_modules/kafkajs",
		install: "cd kafkajs && timeout 120 npm ci --no-audit --no-fund --ignore-scripts",
	}
	needKafkaTools = need{
		what:    "Java, Maven and its registry (compat/kafka-configs/prepare.sh)",
		test:    "command -v java && test -e kafka-configs/lib/complete",
		install: "kafka-configs/prepare.sh",
	}
	needKafka = need{
		what:    "Java, Maven and its registry (compat/kafka-import/prepare.sh)",
		test:    "command -v java && test -e kafka-import/lib/complete",
		install: "kafka-import/prepare.sh",
	}
	needJava = need{
		what:    "a JDK, Maven and its registry (compat/java/prepare.sh)",
		test:    "command -v java && test java/classes/Member.class -nt java/Member.java && test java/classes/Reader.class -nt java/Reader.java",
		install: "java/prepare.sh",
	}
)

// debian is a package of Debian. It is installed without asking where that is possible: as root.
func debian(name, test string) need {
	return need{
		what:    fmt.Sprintf("the Debian package %s (apt-get install %[1]s)", name),
		test:    test,
		install: "timeout 120 apt-get update -qq && timeout 120 apt-get install -y -qq --no-install-recommends " + name,
		root:    true,
	}
}

// missing gives the first need that is not there and cannot be brought; nil: nothing is missing.
func (r runner) missing() *need {
	for _, n := range r.needs {
		if !n.fulfil() {
			return &n
		}
	}
	return nil
}

func (n need) fulfil() bool {
	if exec.Command("sh", "-c", n.test).Run() == nil {
		return true
	}
	if n.root && os.Geteuid() != 0 {
		return false
	}
	fmt.Fprintf(os.Stderr, "installing %s\n", n.what)
	return exec.Command("sh", "-c", n.install).Run() == nil && exec.Command("sh", "-c", n.test).Run() == nil
}
