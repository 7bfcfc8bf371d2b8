"""What tells of the machine as a whole: its CPUs, or a topology that was written down."""
